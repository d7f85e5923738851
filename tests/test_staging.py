"""Scans, checkpoints and per-shape programs; and what happens when a decomposition is recomputed from other bits."""

from functools import cache
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp
from tolerances import GRAD_ATOL, LNZ_ATOL

import trgnb
from trgnb import staging, trg
from trgnb.ising import initial_tensor
from trgnb.staging import Stage

ODD_SCHEDULES = [(4,), (2, 4, 4), (3, 5, 7), (2, 4, 3, 3, 3)]
ENGINES = [staging.recomputing, staging.keeping]


@cache
def unrolled(ks):
    """(ln Z, gradient) at beta = 0.44 by the unrolled loop, two floats."""
    return tuple(map(float, jax.jit(jax.value_and_grad(trg.unrolled_lnz), static_argnums=1)(0.44, ks)))


# --- scan -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ks", "head"),
    [((2, 2), 0), ((2, 4, 4), 2), ((4,), 1), ((3, 5, 7), 3), ((2, 4, 4, 16, 16, 16), 4), ((4, 4, 2, 4), 4), ((2, 3, 3, 2, 2), 4)],
)
def test_equal_tail(ks, head):
    """From this step on d = k."""
    assert staging.equal_tail(ks) == head


@pytest.mark.parametrize("ks", ODD_SCHEDULES)
@pytest.mark.parametrize("function", [staging.scan_lnz, staging.checkpoint_lnz])
def test_scans_of_any_schedule(function, ks):
    found = jax.jit(jax.value_and_grad(function), static_argnums=1)(0.44, ks)
    np.testing.assert_allclose(found, unrolled(ks), rtol=0, atol=1e-13)


# --- programs -------------------------------------------------------------------------------------


def test_stages():
    assert staging.stages((2, 4, 4)) == (
        Stage("initial", 0, 2),
        Stage("step", 2, 2),
        Stage("step", 2, 4),
        Stage("step", 4, 4),
        Stage("trace", 4, 0),
    )
    assert len(set(staging.stages(trg.schedule(16, 20)))) == 7  # 5 shapes of steps serve 20 of them


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stage", set(staging.stages((2, 4, 4))), ids=str)
def test_programs_of_a_stage(engine, stage):
    """Forward is the function, backward its vjp with the cotangents ct and weight."""
    programs, function = engine(stage), stage.function(trg.JAX)
    rng = np.random.default_rng(4)
    x = jnp.asarray(rng.uniform(0.5, 1.5, stage.input_shape))
    y, log = jax.jit(function)(x)
    ct = jax.jit(lambda x, ct: jax.vjp(function, x)[1](ct)[0])(x, (y, 0.5))
    value, (*forward, residuals) = programs.value(x), programs.forward(x)
    # all results come from the same bits, so that even the signs of singular vectors agree
    for found in jax.tree.leaves((value[1], forward[1])):
        np.testing.assert_allclose(found, log, atol=1e-13)
    if y is not None:
        np.testing.assert_allclose(value[0], y, atol=1e-13)
        np.testing.assert_allclose(forward[0], y, atol=1e-13)
    np.testing.assert_allclose(programs.backward(residuals, y, 0.5), ct, atol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ks", ODD_SCHEDULES)
def test_driver(engine, ks):
    value, gradient = staging.staged_lnz_and_grad(engine, jnp.float64(0.44), ks)
    assert (value, gradient) == pytest.approx(unrolled(ks), abs=1e-13)
    assert staging.staged_lnz(engine, jnp.float64(0.44), ks) == pytest.approx(value, abs=1e-15)
    assert type(value) is type(gradient) is float


@pytest.mark.parametrize("engine", ENGINES)
def test_programs_are_shared_between_betas_and_schedules(engine):
    staging.staged_lnz_and_grad(engine, jnp.float64(0.3), (2, 4, 4, 4, 4))
    made = engine.cache_info().misses
    staging.staged_lnz_and_grad(engine, jnp.float64(0.6), (2, 4, 4, 4, 4))
    staging.staged_lnz_and_grad(engine, jnp.float64(0.6), (2, 4, 4))
    assert engine.cache_info().misses == made


def test_driver_takes_any_engine():
    """An engine of plain functions, its backward program a central difference: no JAX transformation anywhere."""

    def differences(stage):
        function = stage.function(trg.NUMPY)

        def forward(x):
            return (*function(x), x)

        def backward(x, ct, weight):
            def pairing(x):
                y, log = function(x)
                return weight * log + (0.0 if y is None else np.sum(y * ct))

            def along(index):
                step = np.zeros(np.shape(x))
                step[index] = 1e-5
                return (pairing(x + step) - pairing(x - step)) / 2e-5

            return np.array([along(index) for index in np.ndindex(np.shape(x))]).reshape(np.shape(x))

        return SimpleNamespace(value=function, forward=forward, backward=backward)

    # h^2 f''' / 6 in each of the five stages
    assert staging.staged_lnz_and_grad(differences, 0.44, (2, 2, 2)) == pytest.approx(unrolled((2, 2, 2)), abs=1e-8)


# --- recomputing a decomposition ------------------------------------------------------------------


def test_both_passes_find_the_same_singular_vectors():
    """Run forward, and again by the backward program: the same bits, also inside degenerate spaces."""
    t, _ = trg.first_tensor(jnp.float64(0.44))
    for k in (2, 4, 4, 16, 16, 16):
        d = t.shape[0]

        def decompositions(t, d=d, k=k):
            """The step, with the factors of its two decompositions beside it."""
            factors = []

            def recorded(a):
                factors.append(trg.svd(a))
                return factors[-1]

            xp = SimpleNamespace(**vars(trg.JAX) | {"svd": recorded})
            y, log = trg.step(t, k, xp)
            return (y, log), factors

        def backward(t, ct, f=decompositions):
            _, pullback, factors = jax.vjp(f, t, has_aux=True)
            return pullback(ct), factors

        out, forward = jax.jit(decompositions)(t)
        _, again = jax.jit(backward)(t, out)
        for a, b in zip(jax.tree.leaves(forward), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(a, b)
        t = out[0]


def naive_step(t, k):
    """Normalise first, decompose next: (coarse-grained T / |T|, ln |T|)."""
    t, log_norm = trg.normalise(t)
    return trg.coarse_grain(t, k), log_norm


def naive_trace(t):
    t, log_norm = trg.normalise(t)
    return log_norm, trg.log_trace(t)


def naive_lnz(beta, ks, step):
    """ln Z with the norm taken at the start of each step; the tail is scanned."""
    *w, last = trg.weights(len(ks))
    head = staging.equal_tail(ks)
    t, total = initial_tensor(beta), 0.0
    for n, k in enumerate(ks[:head]):
        t, log_norm = step(t, k)
        total += w[n] * log_norm

    def body(t, weight):
        t, log_norm = step(t, ks[-1])
        return t, weight * log_norm

    t, logs = lax.scan(body, t, jnp.array(w[head:-1]))
    log_norm, log_trace = naive_trace(t)
    return total + logs.sum() + w[-1] * log_norm + last * log_trace


naive_forward = jax.jit(lambda t, k: naive_step(t, k)[0], static_argnums=1)
naive_backward = jax.jit(lambda t, ct, w, k: jax.vjp(lambda t: naive_step(t, k), t)[1]((ct, w))[0], static_argnums=3)


def naive_staged_gradient(beta, ks):
    """Per-shape programs for ``naive_step``: the backward one gets the tensor as it was, and normalises again."""
    *w, last = trg.weights(len(ks))
    t, ct_beta = jax.vjp(initial_tensor, beta)
    kept = []
    for k in ks:
        kept.append(t)
        t = naive_forward(t, k)
    (ct,) = jax.vjp(naive_trace, t)[1]((jnp.float64(w[-1]), jnp.float64(last)))
    for n, k in reversed(list(enumerate(ks))):
        ct = naive_backward(kept[n], ct, w[n], k)
    return ct_beta(ct)[0]


KS = trg.schedule(16, 20)


def worst(gradient):
    """Largest difference to the gradient of a scan that recomputes nothing."""
    return max(abs(gradient(beta) - trgnb.lnz_and_grad(beta, method="scan")[1]) for beta in (0.3, 0.5))


def jitted_gradient(step):
    return jax.jit(jax.grad(lambda beta: naive_lnz(beta, KS, step)))


def test_normalising_first_is_right_as_long_as_nothing_is_recomputed():
    assert worst(jitted_gradient(naive_step)) < GRAD_ATOL


def test_normalising_first_breaks_a_checkpoint():
    """The recomputed norm rounds differently, and the SVD returns another basis of a degenerate space."""
    assert not worst(jitted_gradient(jax.checkpoint(naive_step, static_argnums=1))) < 1e-6


def test_normalising_first_breaks_separate_programs():
    assert not worst(lambda beta: naive_staged_gradient(beta, KS)) < 1e-6


@pytest.mark.parametrize("method", ["checkpoint", "staged"])
def test_normalising_last_mends_both(method):
    assert worst(lambda beta: trgnb.lnz_and_grad(beta, method=method)[1]) < GRAD_ATOL


def test_values_are_right_in_any_case():
    """Nothing in the value tells of the broken gradient."""
    ks = trg.schedule(8, 12)
    naive = jax.jit(lambda beta: naive_lnz(beta, ks, jax.checkpoint(naive_step, static_argnums=1)))
    assert naive(0.44) == pytest.approx(float(trgnb.lnz(0.44, chi=8, steps=12, method="scan")), abs=LNZ_ATOL)

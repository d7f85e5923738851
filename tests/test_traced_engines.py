"""The TRG on the traced library: the same step and driver as JAX's, programs built once, nothing decomposed twice."""

import numpy as np
import pytest
from tolerances import BETAS, GRAD, GRAD_ATOL, LNZ, LNZ_ATOL, LNZ_ERROR, U_ERROR

import trgnb
from trgnb import staging, traced, traced_engines, trg
from trgnb.ising import exact_energy, exact_lnz
from trgnb.traced.svd import SVD

METHODS = ("traced-staged", "traced-eager")
KS = trgnb.schedule(3, 4)


@pytest.fixture
def decompositions(monkeypatch):
    """Counts the decompositions: the shapes of their matrices, as they happen."""
    shapes, kernel = [], SVD.kernel
    staging._chain.cache_clear()
    traced_engines.recomputing.cache_clear()
    traced.clear_cache()

    def counted(a, **params):
        shapes.append(a.shape)
        return kernel(a, **params)

    object.__setattr__(SVD, "kernel", counted)
    yield shapes
    object.__setattr__(SVD, "kernel", kernel)
    staging._chain.cache_clear()
    traced_engines.recomputing.cache_clear()


@pytest.mark.parametrize("method", METHODS)
def test_known_values(method):
    for beta, lnz_error, u_error in zip(BETAS, LNZ_ERROR, U_ERROR, strict=True):
        lnz, gradient = trgnb.lnz_and_grad(beta, method=method)
        assert lnz - exact_lnz(beta) == pytest.approx(lnz_error, rel=2e-3)
        assert -gradient - exact_energy(beta) == pytest.approx(u_error, rel=2e-3)
        if beta in LNZ:
            assert lnz == pytest.approx(LNZ[beta], abs=LNZ_ATOL)
            assert gradient == pytest.approx(GRAD[beta], abs=GRAD_ATOL)


def test_staged_and_eager_have_the_same_values():
    for beta in BETAS:
        staged, eager = (trgnb.lnz(beta, chi=8, steps=6, method=method) for method in METHODS)
        assert staged == eager  # the same kernels in the same order


@pytest.mark.parametrize(
    ("method", "value", "gradient"), [("traced-staged", 8, 16), ("traced-eager", 8, 8)]
)  # fmt: skip
def test_only_recomputation_decomposes_twice(decompositions, method, value, gradient):
    """Two decompositions for each of four steps; the recomputing backward pass runs them again."""
    trgnb.lnz(0.3, schedule=KS, method=method)
    assert len(decompositions) == value
    decompositions.clear()
    trgnb.lnz_and_grad(0.3, schedule=KS, method=method)
    assert len(decompositions) == gradient


def test_recomputed_decompositions_see_the_same_bits():
    """Otherwise a degenerate space may come back in another basis."""
    stage = staging.stages(KS)[2]
    programs = traced_engines.recomputing(stage)
    x, _ = traced_engines.recomputing(staging.stages(KS)[0]).value(0.44)
    x, _ = traced_engines.recomputing(staging.stages(KS)[1]).value(x)
    inputs = {tuple(n.inputs) for p in (programs.value_program, programs.backward_program) for n in p.nodes if n.op is SVD}
    assert len(inputs) == 2  # hash-consing: the very nodes of the forward program stand in the backward program
    assert programs.value(x)[0].tobytes() == programs.value(x)[0].tobytes()


def test_a_program_for_each_shape_serves_all_steps_and_temperatures(monkeypatch):
    built = []
    compile_ = traced.compile

    def counted(outputs, inputs):
        built.append(len(outputs))
        return compile_(outputs, inputs)

    monkeypatch.setattr(traced, "compile", counted)
    staging._chain.cache_clear()
    traced_engines.recomputing.cache_clear()
    for beta in BETAS:
        trgnb.lnz_and_grad(beta, chi=4, steps=20, method="traced-staged")
    assert len(built) == 2 * len(set(staging.stages(trgnb.schedule(4, 20))))


def test_the_eager_cache_serves_all_steps_and_temperatures():
    """As in the source: 7 entries for 20 steps at chi = 16, of 22 stages each; here at chi = 4."""
    traced.clear_cache()
    ks = trgnb.schedule(4, 20)
    for beta in BETAS:
        trgnb.lnz_and_grad(beta, schedule=ks, method="traced-eager")
    stats, different = traced.cache_stats(), len(set(staging.stages(ks)))
    assert (stats.entries, stats.misses, stats.evictions) == (different, different, 0)
    assert stats.hits == len(BETAS) * 22 - different


def test_the_number_of_ops_does_not_depend_on_the_shape():
    counts = {
        (programs.value_program.op_count, len(programs.value_program.counts))
        for stage in set(staging.stages(trgnb.schedule()))
        if stage.name == "step"
        for programs in [traced_engines.recomputing(stage)]
    }
    assert len(counts) == 1


@pytest.mark.parametrize("k", [2, 3, 4])
def test_step_equals_the_one_of_jax(k):
    t = np.asarray(trg.first_tensor(0.3)[0])
    with traced.fold_extents():
        x = traced.placeholder((2, 2, 2, 2))
        program = traced.compile(list(trg.step(x, k, traced)), [x])
    ours, theirs = program(t), trg.step(t, k)
    # the gauge of the new legs is that of the singular vectors: compare what does not depend on it
    assert np.abs(ours[0]).sum() == pytest.approx(float(np.abs(theirs[0]).sum()), abs=1e-13)
    assert ours[1] == pytest.approx(float(theirs[1]), abs=1e-14)


def test_another_schedule_and_the_ends_of_the_range():
    for method in METHODS:
        for beta in (1e-12, 80.0):
            lnz, gradient = trgnb.lnz_and_grad(beta, schedule=(4, 16, 5, 2), method=method)
            expected = trgnb.lnz_and_grad(beta, schedule=(4, 16, 5, 2))
            assert lnz == pytest.approx(float(expected[0]), rel=1e-14)
            assert gradient == pytest.approx(float(expected[1]), rel=1e-11, abs=1e-14)

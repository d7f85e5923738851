"""The renormalization step and ln Z, against contractions and sums that truncate nothing."""

import itertools

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from tolerances import BETAS, ERROR_RTOL, EXACT, GRAD, GRAD_ATOL, LNZ, LNZ_ATOL, LNZ_ERROR, U_ERROR

import trgnb
from trgnb import trg
from trgnb.ising import exact_energy, exact_lnz


@pytest.fixture(scope="module")
def tensor():
    """Four legs of dimension 2, positive, with no symmetry that could hide a leg in the wrong place."""
    return jnp.asarray(np.random.default_rng(1).uniform(0.5, 1.5, (2, 2, 2, 2)))


# --- the schedule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chi", "expected"),
    [
        (2, (2, 2, 2, 2, 2, 2, 2)),
        (3, (2, 3, 3, 3, 3, 3, 3)),
        (5, (2, 4, 4, 5, 5, 5, 5)),
        (8, (2, 4, 4, 8, 8, 8, 8)),
        (12, (2, 4, 4, 12, 12, 12, 12)),
        (16, (2, 4, 4, 16, 16, 16, 16)),
        (24, (2, 4, 4, 16, 16, 24, 24)),
    ],
)
def test_schedule(chi, expected):
    for steps in range(1, 8):
        assert trgnb.schedule(chi, steps) == expected[:steps]


def test_schedule_of_twenty_steps():
    assert trgnb.schedule() == trgnb.schedule(16, 20) == (2, 4, 4) + 17 * (16,)
    assert all(type(k) is int for k in trgnb.schedule(np.int64(16), np.int32(20)))


@pytest.mark.parametrize("beta", [0.3, 0.44, 0.6])
def test_schedule_is_the_rank_at_every_beta(beta):
    """The rank, counted here with another gap, is that of the critical point."""
    t, _ = trg.first_tensor(beta, trg.NUMPY)
    for k in (2, 4, 4, 16, 16):
        d = t.shape[0]
        s = np.linalg.svd(t.reshape(d * d, d * d), compute_uv=False)
        # structural zeros come out as 1e-16 or less, the rest is above 1e-5
        assert np.sum(s > 1e-13 * s[0]) == np.sum(s > 1e-6 * s[0]) == k
        t, _ = trg.step(t, k, trg.NUMPY)


def test_schedule_while_a_caller_is_traced():
    trg._structural_ranks.cache_clear()

    @jax.jit
    def shape(x):
        return x * len(trgnb.schedule(6, 4))

    assert shape(1.0) == 4


@pytest.mark.parametrize("chi", [1, 0, -2, 1.5, "8", None])
def test_bad_chi(chi):
    with pytest.raises(ValueError, match=r"chi must be a whole number of at least 2, got"):
        trgnb.schedule(chi, 5)


@pytest.mark.parametrize("steps", [0, -1, 2.0, "5", None])
def test_bad_steps(steps):
    with pytest.raises(ValueError, match=r"steps must be a whole number of at least 1, got"):
        trgnb.schedule(8, steps)


# --- one step -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
def test_split_in_full_is_the_matrix(shape):
    m = np.random.default_rng(2).standard_normal(shape)
    a, b = trg.split(jnp.asarray(m), min(shape))
    np.testing.assert_allclose(a @ b, m, atol=EXACT)
    np.testing.assert_allclose(a.T @ a, b @ b.T, atol=EXACT)  # diag(s) on both sides


def test_split_is_the_best_approximation():
    m = np.random.default_rng(2).standard_normal((5, 5))
    a, b = trg.split(jnp.asarray(m), 2)
    assert a.shape == (5, 2) and b.shape == (2, 5)
    dropped = np.linalg.svd(m, compute_uv=False)[2:]
    assert np.linalg.norm(m - a @ b) == pytest.approx(np.linalg.norm(dropped), rel=1e-13)


def test_one_step_in_full_joins_two_tensors(tensor):
    """Two tensors, each neighbour of the other on all four sides: the periods are (1, 1) and (1, -1)."""
    coarse = trg.coarse_grain(tensor, 4)
    expected = np.einsum("urdl,dlur->", tensor, tensor)
    assert np.einsum("ijij->", coarse) == pytest.approx(expected, rel=EXACT)


def test_two_steps_in_full_join_four_tensors(tensor):
    """The 2 x 2 torus, bonds a..d across and e..h upward."""
    coarse = trg.coarse_grain(trg.coarse_grain(tensor, 4), 16)
    expected = np.einsum("eafb,gbha,fced,hdgc->", *4 * (tensor,))
    assert np.einsum("ijij->", coarse) == pytest.approx(expected, rel=1e-13)


def test_step_in_numpy(tensor):
    for ours, plain in zip(trg.step(tensor, 3), trg.step(np.asarray(tensor), 3, trg.NUMPY), strict=True):
        # entries of T' carry the signs of singular vectors, which are the LAPACK's choice
        np.testing.assert_allclose(np.abs(ours), np.abs(plain), atol=1e-13)


def test_step_is_homogeneous(tensor):
    np.testing.assert_allclose(trg.coarse_grain(1e3 * tensor, 3), 1e6 * trg.coarse_grain(tensor, 3), rtol=1e-12)


def test_norms(tensor):
    normalised, log = trg.normalise(tensor)
    assert jnp.linalg.norm(normalised) == pytest.approx(1, abs=EXACT)
    np.testing.assert_allclose(jnp.exp(log) * normalised, tensor, rtol=EXACT)
    for t, _ in (trg.first_tensor(0.44), trg.step(normalised, 3)):
        assert jnp.linalg.norm(t) == pytest.approx(1, abs=EXACT)


def test_weights():
    """Every tensor of step n stands for 2^n spins."""
    assert trg.weights(3) == (1.0, 0.5, 0.25, 0.125, 0.125)


# --- ln Z without truncation ----------------------------------------------------------------------


def ising_sum(beta, steps):
    """ln Z per spin of the 2^steps spins that a run stands for, from all their configurations.

    One step turns the periods (1, 0) and (0, 1) into (1, 1) and (1, -1), so the torus has the periods (m, 0)
    and (0, m), or (m, m) and (m, -m) after an odd number of steps.
    """
    m = 2 ** (steps // 2)
    width = m if steps % 2 == 0 else 2 * m

    def site(x, y):
        if steps % 2:
            x -= y // m * m
        return x % width + width * (y % m)

    sites = list(itertools.product(range(width), range(m)))
    bonds = [(site(x, y), site(x + dx, y + dy)) for x, y in sites for dx, dy in ((1, 0), (0, 1))]
    spins = np.array(list(itertools.product([1, -1], repeat=2**steps)))
    energy = sum(spins[:, i] * spins[:, j] for i, j in bonds)
    return np.log(np.exp(beta * energy).sum()) / 2**steps


@pytest.mark.parametrize("beta", [0.1, 0.44, 1.0])
@pytest.mark.parametrize("ks", [(2,), (4,), (2, 4), (4, 16), (2, 4, 4), (2, 4, 4, 16)])
def test_lnz_without_truncation(beta, ks):
    assert trg.unrolled_lnz(beta, ks) == pytest.approx(ising_sum(beta, len(ks)), abs=1e-13)


@pytest.mark.parametrize("steps", [2, 4])
def test_even_runs_are_square_tori(steps):
    assert ising_sum(0.44, steps) == pytest.approx(exact_lnz(0.44, 2 ** (steps // 2)), abs=EXACT)


# --- ln Z with truncation -------------------------------------------------------------------------


def test_another_librarys_number():
    assert trgnb.lnz(0.4, chi=5, steps=5) == pytest.approx(0.8919788686747141, abs=LNZ_ATOL)


@pytest.fixture(scope="module")
def results():
    """(ln Z, gradient) per beta at chi = 16, 20 steps."""
    return {beta: trgnb.lnz_and_grad(beta, method="scan") for beta in BETAS}


def test_known_values(results):
    assert results[0.30][0] == pytest.approx(LNZ[0.30], abs=LNZ_ATOL)
    assert results[0.30][1] == pytest.approx(GRAD[0.30], abs=GRAD_ATOL)


def test_errors_of_lnz_and_energy(results):
    for beta, lnz_error, u_error in zip(BETAS, LNZ_ERROR, U_ERROR, strict=True):
        lnz, gradient = results[beta]
        assert lnz - exact_lnz(beta) == pytest.approx(lnz_error, rel=ERROR_RTOL)
        assert -gradient - exact_energy(beta) == pytest.approx(u_error, rel=ERROR_RTOL)


def test_error_in_the_ordered_phase_is_the_finite_lattice(results):
    """ln 2 / 2^20 for the two signs of the magnetisation: the torus of 1024 x 1024 has it too."""
    lnz = results[0.60][0]
    assert lnz - exact_lnz(0.60) == pytest.approx(np.log(2) / 2**20, rel=0.05)
    # what is left is truncation
    assert abs(lnz - exact_lnz(0.60, 1024)) < 0.05 * np.log(2) / 2**20


@pytest.mark.parametrize("ks", ["abc", (2, 4.5), None, 3, 2.0])
def test_schedule_of_no_whole_numbers(ks):
    with pytest.raises(ValueError, match="schedule must be a sequence of whole numbers"):
        trg.check_schedule(ks)


@pytest.mark.parametrize(
    ("ks", "says"), [((), "at least one step"), ((5,), "between 1 and 4"), ((2, 4, 17), "between 1 and 16"), ((2, 0), "between 1 and 4")]
)
def test_impossible_schedule(ks, says):
    with pytest.raises(ValueError, match=says):
        trg.check_schedule(ks)

"""The step by sectors: its symmetry, its rules, its choice of what is kept, and exact arithmetic as the judge."""

import warnings

import jax
import numpy as np
import pytest
from tolerances import BETAS, GRAD_ATOL, central

import trgnb
from trgnb import blocks, eigenpairs, ising, sectors, staging, traced_engines, trg
from trgnb.eigenpairs import Eigenpairs

SECTORS = ("sectors", "traced-sectors")
LEGS = ((2, 1), (1, 3))  # (even, odd) of two kinds of legs


def engine(base=traced_engines):
    """An engine with programs of its own, for another initial tensor."""
    return sectors.over(lambda stage: base._Recomputing(stage))


# --- the same numbers --------------------------------------------------------------------------------------------


# chi = 3 parts pairs of values that go to zero together
@pytest.mark.filterwarnings("ignore::trgnb.MultipletWarning")
@pytest.mark.parametrize("method", SECTORS)
@pytest.mark.parametrize(("chi", "steps", "betas"), [(2, 20, BETAS), (3, 20, BETAS), (8, 20, BETAS), (16, 20, (0.44, 0.5, 0.6)), (24, 8, BETAS)])
def test_agrees_with_plain_steps(method, chi, steps, betas):
    """At every beta at which rounding leaves the symmetry of the plain steps alone."""
    for beta in betas:
        lnz, gradient = trgnb.lnz_and_grad(beta, chi=chi, steps=steps, method=method)
        plain = trgnb.lnz_and_grad(beta, chi=chi, steps=steps, method="traced-staged")
        assert lnz == pytest.approx(float(plain[0]), abs=1e-14)
        assert gradient == pytest.approx(float(plain[1]), abs=GRAD_ATOL)


# chi = 5, 20 steps, the plain algorithm in arithmetic of 60 digits; the gradient by central differences with h = 1e-18.
SIXTY_DIGITS = {
    0.40: (0.87930863462434894275, 1.105254728925251),
    0.50: (1.0257107826779962813, 1.746852920539923),
    0.60: (1.2101163912889500126, 1.909357347210061),
}


@pytest.mark.parametrize("method", SECTORS)
@pytest.mark.parametrize("beta", SIXTY_DIGITS)
def test_exact_arithmetic(method, beta):
    lnz, gradient = trgnb.lnz_and_grad(beta, chi=5, method=method)
    assert lnz == pytest.approx(SIXTY_DIGITS[beta][0], abs=5e-15)
    assert gradient == pytest.approx(SIXTY_DIGITS[beta][1], abs=1e-13)


def test_plain_steps_break_the_symmetry():
    """They start from a symmetric tensor, and rounding grows by the ratio of a kept value to its distance from a dropped one."""
    lnz, gradient = trgnb.lnz_and_grad(0.5, chi=5, method="traced-staged")
    assert lnz - SIXTY_DIGITS[0.5][0] == pytest.approx(-1.36e-11, rel=0.05)
    assert gradient - SIXTY_DIGITS[0.5][1] == pytest.approx(4.9e-10, rel=0.2)


@pytest.mark.parametrize("beta", [1e-300, 1e-10, 0.01, 2.0, 80.0])
def test_far_from_the_critical_point(beta):
    size = None if beta < 0.1 else 1024  # the two states of the ordered phase count in ln Z of the torus
    lnz, gradient = trgnb.lnz_and_grad(beta, chi=8, method="traced-sectors")
    assert lnz == pytest.approx(ising.exact_lnz(beta, size), rel=1e-13)
    assert gradient == pytest.approx(-ising.exact_energy(beta, size if beta > 0.1 else None), rel=1e-10)


# --- second derivatives ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["unrolled", "checkpoint", "staged", "traced-staged", *SECTORS])
@pytest.mark.parametrize("steps", [2, 4])
def test_specific_heat_of_a_torus(method, steps):
    """Nothing is cut in four steps, and the torus is known exactly."""
    for beta in (0.3, 0.44, 0.6):
        exact = ising.exact_specific_heat(beta, 2 ** (steps // 2))
        assert trgnb.specific_heat(beta, chi=16, steps=steps, method=method) == pytest.approx(exact, abs=1e-11)


@pytest.mark.parametrize("beta", [0.30, 0.44, 0.60])
def test_specific_heat_is_the_difference_of_gradients(beta):
    options = {"method": "traced-sectors", "schedule": trgnb.sector_schedule(beta)}
    slope = richardson(lambda b: float(trgnb.lnz_and_grad(b, **options)[1]), beta)
    # a few 1e-15 of a gradient, over h
    assert trgnb.specific_heat(beta, **options) == pytest.approx(beta**2 * slope, abs=5e-8)


@pytest.mark.parametrize("beta", [0.30, 0.60])
def test_specific_heat_of_the_infinite_lattice(beta):
    assert trgnb.specific_heat(beta, method="traced-sectors") == pytest.approx(ising.exact_specific_heat(beta), abs=1e-5)


@pytest.mark.parametrize("method", ["residual", "traced-eager"])
def test_specific_heat_says_who_has_it(method):
    with pytest.raises(ValueError, match="choose one of .*'sectors'"):
        trgnb.specific_heat(0.3, method=method)


# --- the numbers kept --------------------------------------------------------------------------------------------


def richardson(function, x, h=1e-5):
    """Central differences with h and 2h, without the term of h^2."""
    return (4.0 * central(function, x, h) - central(function, x, 2 * h)) / 3.0


@pytest.mark.parametrize("beta", [0.433, 0.4365, 0.439, 0.44])
def test_fixed_numbers_take_the_jump_away(beta):
    """Where the largest values swap within h, difference and derivative part by up to 5e-4; not with fixed numbers."""
    options = {"method": "traced-sectors", "schedule": trgnb.sector_schedule(beta)}
    gradient = trgnb.lnz_and_grad(beta, **options)[1]
    # an ulp or two of ln Z over h
    assert gradient == pytest.approx(richardson(lambda b: float(trgnb.lnz(b, **options)), beta), abs=3e-10)


def test_fixed_numbers_that_are_the_largest_values():
    pairs = trgnb.sector_schedule(0.44)
    assert pairs[:5] == ((1, 1), (2, 2), (2, 2), (8, 8), (8, 8)) and pairs[-1] == (7, 9)
    for method in SECTORS:
        assert trgnb.lnz_and_grad(0.44, schedule=pairs, method=method) == trgnb.lnz_and_grad(0.44, method=method)


@pytest.mark.parametrize("pairs", [((1, 1), (2, 1), (0, 3)), ((2, 0), (1, 0), (1, 0))])
def test_a_sector_may_be_empty(pairs):
    lnz, gradient = trgnb.lnz_and_grad(0.5, schedule=pairs, method="traced-sectors")
    slope = richardson(lambda b: float(trgnb.lnz(b, schedule=pairs, method="traced-sectors")), 0.5)
    assert np.isfinite(lnz) and gradient == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ([(1, 1), (2, 3)], r"schedule\[1\] = \(2, 3\) is not possible.* even block of 2 and an odd one of 2 rows"),
        ([(0, 0)], r"schedule\[0\] = \(0, 0\) is not possible"),
        ([(1, -1)], "is not possible"),
        ([(1, 1), 4], r"schedule\[1\] = 4 is no pair"),
        ([(1, 1), (2,)], "is no pair"),
        ([(1.0, 1)], "is no pair"),
        ([2, 5], "k must be between 1 and 4"),
        ([], "at least one step"),
        (7, "sequence of whole numbers"),
    ],
)
def test_bad_schedule(schedule, message):
    with pytest.raises(ValueError, match=message):
        trgnb.lnz(0.4, schedule=schedule, method="traced-sectors")


@pytest.mark.parametrize("method", ["unrolled", "traced-eager"])
def test_pairs_are_for_sectors(method):
    with pytest.raises(ValueError, match="whole numbers, one k per step"):
        trgnb.lnz(0.4, schedule=[(1, 1), (2, 2)], method=method)


def test_a_multiplet_is_not_cut_in_silence():
    values = [np.array([0.9, 0.2, -0.5]), np.array([0.5, 0.1])]
    with pytest.warns(trgnb.MultipletWarning, match="step 7 keeps 0.5 and drops 0.5") as caught:
        kept = sectors.choose(values, 2, step=7)
    warning = caught[0].message
    assert (warning.step, warning.values, warning.gap) == (7, (0.5, 0.5), 0.0)
    assert sum(map(len, kept)) == 2


@pytest.mark.parametrize("k", [1, 3, 4, 5, (1, 1), (2, 0), (0, 2)])
def test_a_clean_cut_does_not_warn(k):
    values = [np.array([0.9, 0.2, -0.5]), np.array([0.5, 0.1])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = sectors.choose(values, k, step=1)
    assert tuple(map(len, kept)) == (k if isinstance(k, tuple) else {1: (1, 0), 3: (2, 1), 4: (3, 1), 5: (3, 2)}[k])


def test_fixed_numbers_cut_a_multiplet_of_one_parity_only():
    with pytest.warns(trgnb.MultipletWarning):
        sectors.choose([np.array([0.9, 0.5, -0.5]), np.array([0.5])], (2, 1), step=1)


def test_the_ordered_phase_warns():
    """Deep in it every even value has an odd partner, which an odd chi parts."""
    with pytest.warns(trgnb.MultipletWarning) as caught:
        trgnb.lnz(1.0, chi=3, method="traced-sectors")
    assert all(0 < warning.message.step <= 20 and warning.message.gap < 1e-13 for warning in caught)


def test_met_numbers_neither_trace_nor_compile(events):
    # eight legs of each kind in the last step: large enough for XLA
    options = {"schedule": ((1, 1), (2, 2), (2, 2), (3, 4), (5, 3)), "method": "sectors"}
    events.clear()
    trgnb.lnz_and_grad(0.3, **options)
    assert "backend_compile_duration" in events
    events.clear()
    trgnb.lnz_and_grad(0.5, **options)
    assert events == []


# --- the symmetry ------------------------------------------------------------------------------------------------


def anisotropic(beta, xp):
    """A model whose couplings differ along the axes by 1.7: symmetric under a half turn only."""
    weights = []
    for b in (1.7 * beta, beta):
        c, s = xp.cosh(b), xp.sinh(b)
        weights.append((c * c, c * s, s * s))
    i = np.indices((2,) * 4)
    even = i.sum(axis=0) % 2 == 0
    t = 0.0
    for m, vertical in enumerate(weights[0]):
        for n, horizontal in enumerate(weights[1]):
            here = even & (i[0] + i[2] == m) & (i[1] + i[3] == n)
            t = t + 2.0 * xp.sqrt(vertical * horizontal) * here.astype(float)
    return t


def plain_lnz(beta, ks):
    t, log = trg.first_tensor(beta, trg.NUMPY)
    w = trg.weights(len(ks))
    total = w[0] * log
    for weight, k in zip(w[1:], ks, strict=False):
        t, log = trg.step(t, k, trg.NUMPY)
        total += weight * log
    return total + w[-1] * trg.log_trace(t, trg.NUMPY)


@pytest.mark.parametrize(
    ("base", "ks"), [(traced_engines, (2, 4, 4, 8, 8)), (traced_engines, (2, 4, 3, 5, 5)), (staging, (2, 4, 3))]
)
def test_half_turn_alone(monkeypatch, base, ks):
    monkeypatch.setattr(trg, "initial_tensor", anisotropic)
    by_sectors = engine(base)
    lnz, gradient = staging.staged_lnz_and_grad(by_sectors, 0.3, ks)
    assert lnz == pytest.approx(plain_lnz(0.3, ks), abs=1e-14)
    assert gradient == pytest.approx(richardson(lambda b: plain_lnz(b, ks), 0.3, h=1e-4), abs=1e-10)
    second = staging.staged_second(by_sectors, 0.3, ks)[2]
    slope = richardson(lambda b: staging.staged_lnz_and_grad(by_sectors, b, ks)[1], 0.3, h=1e-4)
    assert second == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize(("change", "fault"), [(np.indices((2,) * 4).sum(axis=0) % 2, "is not even"), (None, "half turn")])
def test_without_the_symmetry_plain_steps(monkeypatch, change, fault):
    if change is None:
        change = np.zeros((2,) * 4)
        change[0, 0, 1, 1] = 1.0
    monkeypatch.setattr(trg, "initial_tensor", lambda beta, xp: anisotropic(beta, xp) + 0.05 * change.astype(float))
    with pytest.warns(UserWarning, match=f"the initial tensor .*{fault}.*plain SVDs"):
        by_sectors = engine()
    ks = (2, 4, 4)
    lnz, gradient = staging.staged_lnz_and_grad(by_sectors, 0.3, ks)
    assert lnz == pytest.approx(plain_lnz(0.3, ks), abs=1e-14)
    assert gradient == pytest.approx(richardson(lambda b: plain_lnz(b, ks), 0.3, h=1e-4), abs=1e-10)
    with pytest.raises(ValueError, match="give a number"):
        staging.staged_lnz_and_grad(by_sectors, 0.3, ((1, 1), (2, 2)))


def test_tensor_has_the_form():
    """T_urdl = sigma_u tau_l S_urdl with S symmetric, against a step of plain SVDs by what no gauge changes."""
    x, t = 0.44, None
    for stage in staging.stages((2, 4, 4, 8))[:-1]:
        x, _ = engine()(stage).value(x)
    s = np.transpose(blocks.tensor_of(x.blocks, *x.legs[::-1]), (1, 2, 3, 0))
    np.testing.assert_allclose(s, np.transpose(s, (2, 3, 0, 1)), atol=1e-15)
    assert set(x.signs[0]) == {-1.0, 1.0}
    t, _ = trg.first_tensor(0.44, trg.NUMPY)
    for k in (2, 4, 4, 8):
        t, _ = trg.step(t, k, trg.NUMPY)
    ours = s * x.signs[0][:, None, None, None] * x.signs[1]
    for matrices in [(m.reshape(64, 64) for m in (ours, t)), (m.transpose(3, 0, 1, 2).reshape(64, 64) for m in (ours, t))]:
        a, b = (np.linalg.svd(m, compute_uv=False) for m in matrices)
        np.testing.assert_allclose(a, b, atol=1e-14)
    assert np.einsum("ijij", ours) == pytest.approx(np.einsum("ijij", t), abs=1e-14)


def test_blocks_and_tensor_are_inverse():
    rng = np.random.default_rng(0)
    first, second = LEGS
    given = [rng.standard_normal((n, n)) for n in (5, 7)]
    t = blocks.tensor_of(given, first, second)
    assert t.shape == (3, 4, 3, 4)
    for a, b in zip(blocks.blocks_of(t, first, second, trg.NUMPY), given, strict=True):
        np.testing.assert_array_equal(a, b)
    parity = np.add.outer(np.repeat([0, 1], first), np.repeat([0, 1], second)) % 2
    assert not t[np.not_equal.outer(parity, parity)].any()


# --- the rules of the eigenpairs ---------------------------------------------------------------------------------


def symmetric(seed, n=6):
    a = np.random.default_rng(seed).standard_normal((n, n))
    return a + a.T


def halves(s, kept):
    w, q = np.linalg.eigh(s)
    return Eigenpairs(w, q, kept)


KEPT = np.array([5, 0, 4])


def along(t):
    return symmetric(0) + t * symmetric(1)


def invariant(s, ct):
    """A function of the half that does not see the signs of its columns."""
    h = halves(s, KEPT).half
    return float(np.sum(ct * (h @ np.diag([1.0, 2.0, 3.0]) @ h.T)))


def invariant_cotangent(s, ct):
    h = halves(s, KEPT).half
    return (ct + ct.T) @ h @ np.diag([1.0, 2.0, 3.0])


def test_pull_is_the_gradient():
    ct = np.random.default_rng(2).standard_normal((6, 6))
    pairs = halves(along(0.0), KEPT)
    slope = np.sum(pairs.pull(invariant_cotangent(along(0.0), ct)) * symmetric(1))
    assert slope == pytest.approx(central(lambda t: invariant(along(t), ct), 0.0, 1e-5), rel=1e-8)


def test_pull_is_the_transpose_of_the_tangent():
    pairs, ct = halves(symmetric(0), KEPT), np.random.default_rng(3).standard_normal((6, 3))
    tangent = pairs.half_tangent(pairs.turn(symmetric(1)))
    assert np.sum(tangent * ct) == pytest.approx(np.sum(pairs.pull(ct) * symmetric(1)), rel=1e-12)


def test_tangent_of_pull():
    ct = np.random.default_rng(2).standard_normal((6, 6))
    pairs = halves(along(0.0), KEPT)
    turn = pairs.turn(symmetric(1))
    h, dh = pairs.half, pairs.half_tangent(turn)
    weights = np.diag([1.0, 2.0, 3.0])
    pulled = pairs.pull_tangent(turn, (ct + ct.T) @ h @ weights, (ct + ct.T) @ dh @ weights)
    slope = central(lambda t: halves(along(t), KEPT).pull(invariant_cotangent(along(t), ct)), 0.0, 1e-5)
    np.testing.assert_allclose(pulled, slope, atol=1e-7)


def test_zeros_have_no_slope():
    pairs = halves(np.diag([1.0, 1e-16, 0.0]), np.array([2, 1, 0]))
    assert pairs.half[:, 1:].tolist() == np.zeros((3, 2)).tolist()
    assert np.isfinite(pairs.pull(np.ones((3, 3)))).all()


def test_asymmetry_in_words():
    t = ising.initial_tensor(0.3, np)
    assert sectors.asymmetry(t) is None
    assert "not even" in sectors.asymmetry(t + 1e-6 * np.eye(16)[1].reshape(2, 2, 2, 2))
    assert "half turn" in sectors.asymmetry(t + 1e-6 * np.eye(16)[3].reshape(2, 2, 2, 2))


# --- large matrices ----------------------------------------------------------------------------------------------


@pytest.fixture
def geometric():
    """A matrix of 300 rows with eigenvalues of both signs, 1, -.8, .64, ..., and the kept half of sixteen."""
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((300, 300)))[0]
    return q * (-0.8) ** np.arange(300) @ q.T


def test_leading_pairs_are_the_largest(geometric):
    w, q = eigenpairs.leading(geometric, 30)
    assert q.shape == (300, 30)
    np.testing.assert_allclose(np.sort(np.abs(w))[::-1], 0.8 ** np.arange(30), atol=1e-14)
    np.testing.assert_allclose(geometric @ q, q * w, atol=1e-14)


def test_leading_pairs_miss_no_multiple_value():
    w, _ = eigenpairs.leading(np.diag(np.repeat([1.0, 1e-3], [20, 280])), 10)
    assert np.sum(np.abs(w) > 0.5) >= 10


def test_leading_pairs_see_what_is_orthogonal_to_ones():
    """Its largest value, 2, has vectors whose entries sum to zero."""
    s = np.kron(np.eye(150), [[1.0, -1.0], [-1.0, 1.0]]) + np.diag(0.01 * 0.8 ** np.arange(300))
    w, _ = eigenpairs.leading(s, 4)
    assert np.sort(np.abs(w))[-4:].min() > 2.0 - 1e-6


@pytest.mark.parametrize("s", [np.zeros((300, 300)), np.kron(np.eye(150), [[1.0, -1.0], [-1.0, 1.0]])])
def test_leading_pairs_of_odd_matrices(s):
    for count in (0, 1, 4):
        w, q = eigenpairs.leading(s, count)
        np.testing.assert_allclose(s @ q, q * w, atol=1e-12)


def test_large_blocks_without_values():
    assert trgnb.lnz(1e-300, chi=24, method="traced-sectors") == pytest.approx(np.log(2.0), abs=1e-15)
    pairs = ((1, 1), (2, 2), (2, 2), (8, 8), (16, 16), (16, 0))
    lnz, gradient = trgnb.lnz_and_grad(0.44, schedule=pairs, method="traced-sectors")
    assert (lnz, gradient) == (pytest.approx(0.92796785, abs=1e-8), pytest.approx(1.33263247, abs=1e-8))


def test_the_first_value_that_is_dropped_is_seen():
    """All values kept are even, and so is the next."""
    even = np.diag(np.r_[1.0, 0.5, 0.5, 0.01 * 0.5 ** np.arange(20), np.zeros(277)])
    with pytest.warns(trgnb.MultipletWarning):
        sectors.Cut((even, np.zeros((0, 0))), ((300, 0), (1, 0)), 2, step=7)


@pytest.mark.filterwarnings("ignore::trgnb.traced.NonFiniteWarning")
@pytest.mark.parametrize("schedule", [((0, 2), (4, 0)), ((0, 1), (1, 0))])
def test_not_finite_is_announced(schedule):
    with pytest.raises(FloatingPointError):
        trgnb.lnz(1e-300, schedule=schedule, method="traced-sectors")


@pytest.mark.parametrize("method", ["traced-staged", "traced-sectors"])
def test_a_number_inside_jit(method):
    inside = jax.jit(lambda x: x + trgnb.lnz(0.3, chi=4, steps=4, method=method))(1.0)
    assert inside == 1.0 + trgnb.lnz(0.3, chi=4, steps=4, method=method)


def test_isotropic_by_chance(monkeypatch):
    """The couplings are equal at one beta only, and the derivatives know that they are not elsewhere."""

    def mixed(beta, xp):
        c, s, i = (xp.cosh(beta), np.cosh(0.44)), (xp.sinh(beta), np.sinh(0.44)), np.indices((2,) * 4)
        t = 0.0
        for m, vertical in enumerate((c[0] * c[0], c[0] * s[0], s[0] * s[0])):
            for n, horizontal in enumerate((c[1] * c[1], c[1] * s[1], s[1] * s[1])):
                here = (i.sum(axis=0) % 2 == 0) & (i[0] + i[2] == m) & (i[1] + i[3] == n)
                t = t + 2.0 * xp.sqrt(vertical * horizontal) * here.astype(float)
        return t

    monkeypatch.setattr(trg, "initial_tensor", mixed)
    by_sectors = engine()
    second = staging.staged_second(by_sectors, 0.44, (2, 4, 4, 8))[2]
    slope = richardson(lambda b: staging.staged_lnz_and_grad(by_sectors, b, (2, 4, 4, 8))[1], 0.44, h=1e-4)
    assert second == pytest.approx(slope, abs=1e-8)


def test_beyond_the_leading_pairs(geometric):
    """The gradient with 30 of 300 pairs is that with all of them."""
    ct = np.random.default_rng(1).standard_normal((300, 16))
    some, every = eigenpairs.leading(geometric, 30), np.linalg.eigh(geometric)
    pairs = [Eigenpairs(w, q, np.argsort(-np.abs(w))[:16], geometric if len(w) < 300 else None) for w, q in (some, every)]
    signs = np.sign(np.sum(pairs[0].half * pairs[1].half, axis=0))
    a, b = pairs[0].pull(ct * signs), pairs[1].pull(ct)
    np.testing.assert_allclose(a, b, atol=1e-12 * np.abs(b).max())


def test_pairs_that_do_not_reach_far_enough(geometric):
    """16 of 17 pairs are kept: what is dropped begins too near."""
    for count, enough in ((17, False), (30, True)):
        w, q = eigenpairs.leading(geometric, count)
        pairs = sectors._eigenpairs(geometric, w, q, np.argsort(-np.abs(w))[:16])
        assert len(w) == count and (pairs.s is not None) == enough


@pytest.mark.parametrize("chi", [24])
def test_leading_pairs_give_the_same_numbers(monkeypatch, chi):
    complete = trgnb.lnz_and_grad(0.44, chi=chi, steps=8, method="traced-sectors")
    monkeypatch.setattr(eigenpairs, "_LARGE", 10_000)
    np.testing.assert_allclose(trgnb.lnz_and_grad(0.44, chi=chi, steps=8, method="traced-sectors"), complete, atol=1e-14)

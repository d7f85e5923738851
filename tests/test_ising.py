"""The Ising model against the published values, identities, and sums over all spin configurations."""

import itertools

import numpy as np
import pytest
from scipy import integrate
from tolerances import BETAS, EXACT, central

import trgnb
from trgnb import ising
from trgnb.ising import BETA_CRITICAL, exact_energy, exact_lnz, exact_specific_heat

SIDES = [3, 4]


@pytest.fixture(scope="module", params=SIDES)
def torus(request):
    """(size, sum of s s' over the bonds for every spin configuration of a size x size torus)."""
    size = request.param
    spins = np.array(list(itertools.product([1, -1], repeat=size * size))).reshape(-1, size, size)
    bonds = sum((spins * np.roll(spins, 1, axis)).sum((1, 2)) for axis in (1, 2))
    return size, bonds


def by_enumeration(torus, beta):
    """ln Z, energy and specific heat per spin, from all configurations."""
    size, bonds = torus
    weights = np.exp(beta * bonds)
    z = weights.sum()
    mean = (weights * bonds).sum() / z
    variance = (weights * (bonds - mean) ** 2).sum() / z
    n = size * size
    return np.log(z) / n, -mean / n, beta**2 * variance / n


def onsager_by_double_integral(beta):
    """Onsager's other form, a smooth periodic integrand: the mean over a grid converges exponentially."""
    cosh, sinh = np.cosh(2 * beta), np.sinh(2 * beta)
    x = np.cos(2 * np.pi * np.arange(400) / 400)
    return np.log(2) + np.log(cosh**2 - sinh * (x[:, None] + x[None, :])).mean() / 2


@pytest.mark.parametrize("beta", [0.05, 0.2, 0.3, 0.36, 0.53, 0.6, 1.0])
def test_lnz_is_onsagers_double_integral(beta):
    assert exact_lnz(beta) == pytest.approx(onsager_by_double_integral(beta), abs=EXACT)


def test_published_values():
    assert exact_lnz(0.3) == pytest.approx(0.790559070951263, abs=EXACT)
    assert exact_energy(0.3) == pytest.approx(-0.704499070832445, abs=EXACT)


def test_values_at_the_critical_point():
    """ln Z/N = ln 2 / 2 + 2 G / pi with Catalan's constant G; u = -sqrt 2."""
    catalan = integrate.quad(lambda x: np.arctan(x) / x, 0, 1, epsabs=1e-15)[0]
    assert exact_lnz(BETA_CRITICAL) == pytest.approx(np.log(2) / 2 + 2 * catalan / np.pi, abs=EXACT)
    assert exact_energy(BETA_CRITICAL) == pytest.approx(-np.sqrt(2), abs=EXACT)
    with pytest.raises(ValueError, match="diverges at the critical point"):
        exact_specific_heat(BETA_CRITICAL)


@pytest.mark.parametrize("beta", [0.01, 0.019, 0.1, 0.3, 0.44])
def test_duality(beta):
    """Kramers and Wannier: ln Z(beta) - ln Z(beta*) = ln sinh(2 beta), with sinh(2 beta) sinh(2 beta*) = 1."""
    dual = np.arcsinh(1 / np.sinh(2 * beta)) / 2
    assert exact_lnz(beta) - exact_lnz(dual) == pytest.approx(np.log(np.sinh(2 * beta)), abs=EXACT)


def test_high_and_low_temperature():
    assert exact_lnz(1e-9) == pytest.approx(np.log(2), abs=EXACT)
    assert exact_energy(1e-9) == pytest.approx(-2e-9, rel=1e-12)
    assert exact_specific_heat(1e-9) == pytest.approx(2e-18, rel=1e-12)
    assert exact_lnz(50.0) == pytest.approx(100.0, rel=EXACT)
    assert exact_energy(50.0) == pytest.approx(-2.0, abs=EXACT)
    assert exact_specific_heat(50.0) == pytest.approx(0.0, abs=EXACT)


@pytest.mark.parametrize("size", [None, 4, 64])
@pytest.mark.parametrize("beta", [0.01, *BETAS])
def test_energy_and_specific_heat_are_derivatives(beta, size):
    # h^2 f''' / 6 < 1e-6 with f''' < 1e4 (|beta - beta_c| > 6e-4), and the ulp of f over h is 1e-11
    h = 1e-5
    assert -exact_energy(beta, size) == pytest.approx(central(lambda b: exact_lnz(b, size), beta, h), abs=2e-7)
    second = -central(lambda b: exact_energy(b, size), beta, h)
    assert exact_specific_heat(beta, size) == pytest.approx(beta**2 * second, abs=2e-5)


@pytest.mark.parametrize("function", [exact_lnz, exact_energy, exact_specific_heat])
def test_series_meets_the_closed_forms(function):
    """At the switch the closed forms have lost 1e-16 / beta^2 of what the series has to the last digit."""
    below, above = np.nextafter(0.02, 0), np.nextafter(0.02, 1)
    assert function(below) == pytest.approx(function(above), rel=1e-11)


@pytest.mark.parametrize("function", [exact_lnz, exact_energy])
def test_continuous_at_the_critical_point(function):
    # u changes like x ln x: 1e-12 * 4 ln 1e12 is about 1e-10
    around = [function(BETA_CRITICAL + x) for x in (-1e-12, 0, 1e-12)]
    assert np.ptp(around) < 5e-10


def test_specific_heat_diverges_like_a_logarithm():
    """c = -(8 beta_c^2 / pi) ln |beta - beta_c| + const: each factor of ten adds the same."""
    for side in (1, -1):
        near, nearer = (exact_specific_heat(BETA_CRITICAL + side * x) for x in (1e-8, 1e-9))
        # beta moves by 1e-8 relative to its digits, so the difference is known to about 1e-6
        assert nearer - near == pytest.approx(8 * BETA_CRITICAL**2 / np.pi * np.log(10), rel=1e-6)


@pytest.mark.parametrize("beta", [1e-3, 0.1, 0.3, BETA_CRITICAL, 0.6, 2.0])
def test_torus_is_the_sum_over_configurations(torus, beta):
    lnz, u, c = by_enumeration(torus, beta)
    size = torus[0]
    assert exact_lnz(beta, size) == pytest.approx(lnz, abs=EXACT)
    assert exact_energy(beta, size) == pytest.approx(u, abs=1e-13)
    assert exact_specific_heat(beta, size) == pytest.approx(c, abs=1e-12)


@pytest.mark.parametrize("beta", [3.0, 5.0, 10.0])
def test_specific_heat_of_a_cold_torus_is_right_in_absolute_terms_only(torus, beta):
    assert exact_specific_heat(beta, torus[0]) == pytest.approx(by_enumeration(torus, beta)[2], abs=5e-13)


def test_large_torus_has_two_ordered_states():
    """Z of the torus counts both signs of the magnetisation, the infinite lattice one."""
    difference = exact_lnz(0.6, 1024) - exact_lnz(0.6)
    assert difference == pytest.approx(np.log(2) / 2**20, abs=EXACT)


@pytest.mark.parametrize("beta", [1e-9, 80.0])
@pytest.mark.parametrize("size", [2, 1024])
def test_torus_at_the_ends_of_the_range(beta, size):
    ordered = 2 * beta + np.log(2) / size**2
    expected = max(np.log(2) if beta < 1 else 0.0, ordered)
    assert exact_lnz(beta, size) == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("size", [2, 1024])
def test_derivatives_on_the_torus_at_the_ends_of_the_range(size):
    assert exact_energy(80.0, size) == pytest.approx(-2.0, rel=EXACT)
    assert exact_specific_heat(80.0, size) == pytest.approx(0.0, abs=1e-8)
    assert exact_energy(1e-3, size) == pytest.approx(-4e-3 if size == 2 else -2e-3, rel=1e-5)
    for function in (exact_energy, exact_specific_heat):
        with pytest.raises(ValueError, match="beta must be at least 0.001"):
            function(1e-4, size)


@pytest.mark.parametrize("function", [exact_lnz, exact_energy, exact_specific_heat])
@pytest.mark.parametrize("beta", [0.0, -0.4, 151.0, np.nan, np.inf, "cold", None, [0.3, 0.4]])
def test_bad_beta(function, beta):
    with pytest.raises(ValueError, match="beta must be"):
        function(beta)


@pytest.mark.parametrize("size", [0, 1, -4, 2.5, "large", np.nan])
def test_bad_size(size):
    with pytest.raises(ValueError, match="size must be a whole number of at least 2"):
        exact_lnz(0.3, size)


def test_initial_tensor_is_the_sum_over_one_spin():
    """T_ijkl = sum_s M_si M_sj M_sk M_sl, where M M^T is the bond weight."""
    beta = 0.3
    root_cosh, root_sinh = np.sqrt([np.cosh(beta), np.sinh(beta)])
    m = np.array([[root_cosh, root_sinh], [root_cosh, -root_sinh]])
    np.testing.assert_allclose(m @ m.T, np.exp(beta * np.array([[1, -1], [-1, 1]])), rtol=EXACT)
    tensor = ising.initial_tensor(beta)
    np.testing.assert_allclose(tensor, np.einsum("si,sj,sk,sl->ijkl", m, m, m, m), atol=EXACT)


def test_initial_tensor_is_even_to_the_last_bit():
    tensor = np.asarray(ising.initial_tensor(0.44))
    odd = np.indices(tensor.shape).sum(0) % 2 == 1
    assert (tensor[odd] == 0.0).all() and (tensor[~odd] > 0.0).all()
    assert tensor.dtype == np.float64


def test_initial_tensor_in_numpy():
    np.testing.assert_allclose(ising.initial_tensor(0.3, np), trgnb.ising.initial_tensor(0.3), rtol=EXACT)

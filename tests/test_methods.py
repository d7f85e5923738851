"""The methods behind ``lnz`` and ``lnz_and_grad``: one answer, JAX transformations, no second trace, bad input."""

from functools import cache

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from tolerances import BETAS, GRAD_ATOL, LNZ_ATOL, central

import trgnb
from trgnb import methods, staging
from trgnb.ising import exact_energy, exact_lnz, exact_specific_heat

TRACEABLE = ("unrolled", "scan", "checkpoint")
STAGED = ("staged", "residual", "traced-staged", "traced-eager")
SECTORS = ("sectors", "traced-sectors")  # what they agree with, and where, is in test_sectors
SMALL = {"chi": 3, "steps": 4}


def test_names():
    assert trgnb.METHODS == TRACEABLE + STAGED + SECTORS


# --- one answer -----------------------------------------------------------------------------------


# chi = 24 is cut for the first time in step 6; all of its 20 steps would take minutes.
@pytest.mark.parametrize(("chi", "steps"), [(5, 20), (8, 20), (16, 20), (24, 8)])
@pytest.mark.parametrize("method", TRACEABLE[1:] + STAGED)
def test_methods_agree(method, chi, steps):
    # chi = 5 cuts through pairs that are nearly degenerate in the ordered phase, and their gap divides
    lnz_atol = 1e-12 if chi == 5 else 1e-14 if method.startswith("traced") else LNZ_ATOL
    for beta in BETAS:
        lnz, gradient = trgnb.lnz_and_grad(beta, chi=chi, steps=steps, method=method)
        expected = trgnb.lnz_and_grad(beta, chi=chi, steps=steps)
        assert lnz == pytest.approx(float(expected[0]), abs=lnz_atol)
        assert gradient == pytest.approx(float(expected[1]), abs=GRAD_ATOL)


@pytest.mark.parametrize("method", trgnb.METHODS)
def test_two_float64_scalars(method):
    lnz, gradient = trgnb.lnz_and_grad(0.44, **SMALL, method=method)
    value = trgnb.lnz(0.44, **SMALL, method=method)
    assert all(isinstance(x, jax.Array) and x.shape == () and x.dtype == jnp.float64 for x in (lnz, gradient, value))
    assert value == pytest.approx(float(lnz), abs=1e-15)


@pytest.mark.parametrize("method", trgnb.METHODS)
@pytest.mark.parametrize("beta", [0.001, 0.01, 0.44, 2.0, 80.0])
def test_four_steps_are_the_torus_of_sixteen_spins(method, beta):
    """Nothing is truncated, at any temperature."""
    lnz, gradient = trgnb.lnz_and_grad(beta, chi=16, steps=4, method=method)
    assert lnz == pytest.approx(exact_lnz(beta, 4), rel=1e-13)
    assert gradient == pytest.approx(-exact_energy(beta, 4), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("method", trgnb.METHODS)
@pytest.mark.parametrize("beta", [0.001, 0.01, 2.0, 80.0])
def test_far_from_the_critical_point_truncation_costs_nothing(method, beta):
    size = None if beta < 0.1 else 1024  # the two states of the ordered phase count in ln Z of the torus
    lnz, gradient = trgnb.lnz_and_grad(beta, chi=8, method=method)
    assert lnz == pytest.approx(exact_lnz(beta, size), rel=1e-13)
    assert gradient == pytest.approx(-exact_energy(beta, size), rel=1e-10)


@pytest.mark.parametrize("method", trgnb.METHODS)
def test_schedule_in_place_of_chi_and_steps(method):
    ks = trgnb.schedule(**SMALL)
    assert trgnb.lnz_and_grad(0.3, schedule=list(ks), method=method) == trgnb.lnz_and_grad(0.3, **SMALL, method=method)


@pytest.mark.parametrize("method", ["scan", "staged", "traced-staged", "traced-eager"])
def test_zeros_that_are_kept_change_nothing(method):
    """k = min(d * d, 16) keeps rounding residues of structural zeros."""
    lnz, gradient = trgnb.lnz_and_grad(0.44, schedule=(4, 16, 16, 16, 16), method=method)
    expected = trgnb.lnz_and_grad(0.44, schedule=(2, 4, 4, 16, 16), method=method)
    assert lnz == pytest.approx(float(expected[0]), abs=LNZ_ATOL)
    assert gradient == pytest.approx(float(expected[1]), abs=GRAD_ATOL)


@pytest.mark.parametrize("method", ["scan", "staged", "traced-staged", "traced-eager"])
def test_float32_input_is_computed_in_float64(method):
    beta = np.float32(0.44)
    assert trgnb.lnz(beta, **SMALL, method=method) == trgnb.lnz(float(beta), **SMALL, method=method)


# --- finite differences ---------------------------------------------------------------------------


def difference(beta, h):
    return central(lambda b: float(trgnb.lnz(b, method="scan")), beta, h)


@pytest.mark.parametrize(("beta", "h"), [(0.30, 1e-5), (0.40, 1e-5), (0.44, 1e-6), (0.50, 1e-5), (0.60, 1e-5)])
def test_gradient_is_the_central_difference(beta, h):
    gradient = trgnb.lnz_and_grad(beta, method="scan")[1]
    # h^2 / 6 times a third derivative of order 1e2, and a few ulp of ln Z over h
    assert gradient == pytest.approx(difference(beta, h), abs=1e-8)


def test_a_difference_across_a_jump():
    """Between .44 and .44 + 1e-5 the 16th and 17th singular values swap: truncation makes ln Z jump by 3.7e-9."""
    gradient = trgnb.lnz_and_grad(0.44, method="scan")[1]
    assert difference(0.44, 1e-5) - gradient == pytest.approx(1.837e-4, rel=2e-3)


# --- transformations ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", TRACEABLE)
def test_transformations(method):
    def lnz(beta):
        return trgnb.lnz(beta, **SMALL, method=method)

    betas = jnp.array([0.30, 0.44])
    values, slopes = np.transpose([trgnb.lnz_and_grad(beta, **SMALL) for beta in betas])
    assert jax.jit(lnz)(0.44) == pytest.approx(values[1], abs=1e-14)
    assert jax.grad(lnz)(0.44) == pytest.approx(slopes[1], abs=1e-12)
    assert jax.jvp(lnz, (0.44,), (2.0,))[1] == pytest.approx(2 * slopes[1], abs=1e-12)
    np.testing.assert_allclose(jax.vmap(lnz)(betas), values, atol=1e-14)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(lnz)))(betas), slopes, atol=1e-12)


@cache
def hessian(method, ks):
    return jax.jit(jax.hessian(lambda beta: trgnb.lnz(beta, schedule=ks, method=method)))


@pytest.mark.parametrize("method", TRACEABLE)
@pytest.mark.parametrize("beta", [0.1, 0.3, 0.44, 0.8])
def test_second_derivative_is_the_specific_heat(method, beta):
    second = hessian(method, (2, 4))(beta)
    assert beta**2 * second == pytest.approx(exact_specific_heat(beta, 2), abs=1e-9)


@pytest.mark.parametrize("method", TRACEABLE)
def test_second_derivative_of_a_truncated_run(method):
    def slope(beta):
        return float(trgnb.lnz_and_grad(beta, **SMALL, method=method)[1])

    second = hessian(method, trgnb.schedule(**SMALL))(0.3)
    # h^2 / 6 times a fourth derivative of order 1e2, and 1e-15 / h
    assert second == pytest.approx(central(slope, 0.3, 1e-5), abs=1e-7)


@pytest.mark.parametrize("function", [trgnb.lnz, trgnb.lnz_and_grad])
@pytest.mark.parametrize("method", STAGED)
def test_staged_methods_want_a_number(method, function):
    with pytest.raises(TypeError, match="needs beta as a number.*'unrolled', 'scan', 'checkpoint'"):
        jax.jit(lambda beta: function(beta, **SMALL, method=method))(0.44)


# --- no second trace ------------------------------------------------------------------------------


def test_the_listener_counts(events):
    events.clear()
    x = jnp.float64(0.3)
    jax.jit(lambda x: jnp.sin(x) + 1)(x)
    assert {"jaxpr_trace_duration", "backend_compile_duration"} <= set(events)
    events.clear()
    jax.jit(lambda x: jnp.sin(x) + 1)(x)  # the same source, another function object
    assert "jaxpr_trace_duration" in events


@pytest.mark.parametrize("function", [trgnb.lnz, trgnb.lnz_and_grad])
@pytest.mark.parametrize("method", trgnb.METHODS)
def test_another_beta_neither_traces_nor_compiles(events, method, function):
    function(0.3, **SMALL, method=method)
    events.clear()
    for beta in (0.44, np.float64(0.5), jnp.float64(0.6)):
        function(beta, **SMALL, method=method)
    function(0.7, schedule=trgnb.schedule(**SMALL), method=method)
    assert events == []


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["unrolled", "staged", "traced-eager"])
@pytest.mark.parametrize("beta", [np.nan, np.inf, -np.inf, 0.0, -0.44, 151.0, "cold", None, 0.44j, [0.3, 0.4], jnp.ones(2)])
def test_bad_beta(method, beta):
    with pytest.raises(ValueError, match="beta must be"):
        trgnb.lnz_and_grad(beta, **SMALL, method=method)


def test_bad_beta_inside_a_transformation():
    with pytest.raises(ValueError, match=r"beta must be a real scalar, got shape \(2,\).*jax.vmap"):
        jax.jit(lambda beta: trgnb.lnz(beta, **SMALL))(jnp.ones(2))


@pytest.mark.parametrize("function", [trgnb.lnz, trgnb.lnz_and_grad])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"chi": 1}, "chi must be .* at least 2, got 1"),
        ({"chi": 1.5}, "chi must be a whole number .* got 1.5"),
        ({"chi": "8"}, "chi must be a whole number .* got '8'"),
        ({"steps": 0}, "steps must be .* at least 1, got 0"),
        ({"method": "fast"}, "unknown method 'fast'.*'unrolled', 'scan', .* 'residual', 'traced-staged', 'traced-eager', 'sectors', 'traced-sectors'$"),
        ({"method": None}, "unknown method None"),
        ({"schedule": (5,)}, r"schedule\[0\] = 5 is not possible.* between 1 and 4"),
        ({"schedule": (2, 4, 17)}, r"schedule\[2\] = 17 is not possible"),
        ({"schedule": ()}, "schedule must have at least one step"),
        ({"schedule": "abc"}, "schedule must be a sequence of whole numbers"),
        ({"schedule": (2, 4.5)}, "schedule must be a sequence of whole numbers"),
        ({"schedule": (2, 4), "chi": 8}, "either schedule or chi and steps"),
        ({"schedule": (2, 4), "steps": 2}, "either schedule or chi and steps"),
    ],
)
def test_bad_arguments(function, arguments, says):
    with pytest.raises(ValueError, match=says):
        function(0.44, **arguments)


def test_unhashable_method():
    with pytest.raises(ValueError, match="unknown method"):
        trgnb.lnz(0.44, method=["scan"])


def test_without_float64():
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(RuntimeError, match="jax_enable_x64"):
            trgnb.lnz(0.44)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_what_is_not_finite_is_an_error():
    with pytest.raises(FloatingPointError, match=r"scan at beta = 0.3 with schedule \(2, 4\)"):
        methods._check_finite(jnp.array([1.0, jnp.nan]), 0.3, (2, 4), "scan")


@pytest.mark.parametrize("beta", [1e-12, 80.0])
def test_second_derivative_at_the_ends_of_the_range(beta):
    """ln cosh(beta)^2 and two states: 2 at infinite temperature, 0 at zero temperature."""
    second = jax.jacfwd(jax.grad(lambda b: trgnb.lnz(b, **SMALL)))(beta)
    assert second == pytest.approx(2.0 if beta < 1 else 0.0, abs=1e-9)


def test_residual_programs_are_built_once_by_several_threads():
    from concurrent.futures import ThreadPoolExecutor

    staging._chain.cache_clear()
    staging.keeping.cache_clear()
    with ThreadPoolExecutor(5) as pool:
        results = list(pool.map(lambda _: trgnb.lnz_and_grad(0.3, **SMALL, method="residual"), range(5)))
    assert len(set(map(str, results))) == 1

"""ln Z and its gradient by every method, behind one pair of functions."""

from functools import lru_cache, partial
from math import prod

import jax
import numpy as np
from jax import numpy as jnp

from trgnb import sectors, staging, traced_engines, trg
from trgnb.ising import check_beta
from trgnb.sector_stages import First, Join, Trace

_TRACEABLE = {
    "unrolled": trg.unrolled_lnz,
    "scan": staging.scan_lnz,
    "checkpoint": staging.checkpoint_lnz,
}
# Entries of a half from which on a plaquette repays the second that XLA needs for its programs.
_WORTH_COMPILING = 257


def _compiled_if_large(stage):
    """The engine of "sectors": XLA for plaquettes of some size, the traced library for what is done in no time."""
    small = isinstance(stage, First | Trace) or isinstance(stage, Join) and prod(stage.input_shape[0][0]) < _WORTH_COMPILING
    return (traced_engines if small else staging).recomputing(stage)


_SECTORS = {
    "sectors": sectors.over(_compiled_if_large),
    "traced-sectors": sectors.over(traced_engines.recomputing),
}
_ENGINES = {
    "staged": staging.recomputing,
    "residual": staging.keeping,
    "traced-staged": traced_engines.recomputing,
    "traced-eager": traced_engines.eager,
    **_SECTORS,
}

METHODS = (*_TRACEABLE, *_ENGINES)
"""Names of the methods, in the order of the book's tables."""


def lnz(beta, *, chi=16, steps=20, method="unrolled", schedule=None):
    """ln Z per spin of 2^steps spins by the tensor renormalization group, float64.

    beta: inverse temperature J / k_B T (J = 1), a scalar with 0 < beta <= 80.
    chi: bond dimension, >= 2.  steps: number of TRG steps, >= 1.  method: one of ``trgnb.METHODS``.
    schedule: bond dimension of every step, instead of chi and steps.  For the two methods by sectors it may hold pairs
    (even, odd), how many values of each parity a step keeps: ln Z then jumps no more where an even and an odd value swap, only where two
    of one parity do.

    For "unrolled", "scan" and "checkpoint" it is a JAX function of beta: jit, grad, vmap, jvp and second
    derivatives apply.  The others run programs from Python and want a number: "staged", "residual" and "sectors" those of
    JAX, "traced-staged", "traced-eager" and "traced-sectors" those of ``trgnb.traced``.
    A second call with the same schedule neither traces nor compiles; by sectors this holds once the numbers of even and
    odd values have been met.

    A traced beta is not checked: outside (0, 80] its result may be NaN.

    Errors: ValueError that names the argument for bad input; TypeError for a traced beta where a number
    is wanted; FloatingPointError instead of a result that is not finite.
    Source: Levin and Nave, Phys. Rev. Lett. 99, 120601 (2007).

    >>> round(float(trgnb.lnz(0.3, chi=4, steps=2, method="traced-eager")), 6)
    0.883259
    """
    beta, ks = _check(beta, chi, steps, method, schedule)
    if method in _TRACEABLE:
        value = _jitted(method, ks)[0](beta)
    else:
        value = staging.staged_lnz(_ENGINES[method], beta, ks)
    return jnp.asarray(_check_finite(value, beta, ks, method), jnp.float64)


def lnz_and_grad(beta, *, chi=16, steps=20, method="unrolled", schedule=None):
    """ln Z per spin and d(ln Z/N)/d beta = -u, a pair of float64 scalars.

    Arguments and errors: as for ``lnz``.

    >>> options = {"chi": 8, "steps": 8, "method": "traced-eager"}
    >>> value, gradient = trgnb.lnz_and_grad(0.3, **options)
    >>> round(float(gradient), 3), round(-ising.exact_energy(0.3), 3)
    (0.704, 0.704)
    """
    beta, ks = _check(beta, chi, steps, method, schedule)
    if method in _TRACEABLE:
        pair = _jitted(method, ks)[1](beta)
    else:
        pair = staging.staged_lnz_and_grad(_ENGINES[method], beta, ks)
    return tuple(jnp.asarray(x, jnp.float64) for x in _check_finite(pair, beta, ks, method))


def specific_heat(beta, *, chi=16, steps=20, method="sectors", schedule=None):
    """Specific heat per spin c / k_B = beta^2 d^2(ln Z/N)/d beta^2 by forward-over-reverse, a float64 scalar.

    Arguments and errors: as for ``lnz``, without the methods "residual" and "traced-eager".
    It is the derivative of a truncated function: near the critical point, where kept values swap with dropped ones, far
    from the exact one (see ``ising.exact_specific_heat``).

    >>> options = {"chi": 8, "steps": 20, "method": "traced-sectors"}
    >>> round(float(trgnb.specific_heat(0.3, **options)), 2), round(ising.exact_specific_heat(0.3), 2)
    (0.29, 0.29)
    """
    check_second(method)
    beta, ks = _check(beta, chi, steps, method, schedule)
    if method in _TRACEABLE:
        second = _jitted(method, ks)[2](beta)
    else:
        second = staging.staged_second(_ENGINES[method], beta, ks)[2]
    return jnp.asarray(_check_finite(beta * beta * second, beta, ks, method), jnp.float64)


def check_second(method):
    """Raise ValueError, with a choice of others, for a method without second derivatives."""
    if method in ("residual", "traced-eager"):
        others = ", ".join(repr(name) for name in METHODS if name not in ("residual", "traced-eager"))
        raise ValueError(f"method {method!r} keeps residuals of first derivatives only; for the second choose one of {others}")


def sector_schedule(beta, *, chi=16, steps=20):
    """How many even and odd values the steps keep at beta, a tuple of pairs: a schedule for the methods by sectors.

    Arguments and errors: as for ``lnz``.

    >>> trgnb.sector_schedule(0.44, steps=4)
    ((1, 1), (2, 2), (2, 2), (8, 8))
    """
    x, ks = _check(beta, chi, steps, "traced-sectors", None)
    pairs = []
    for stage in staging.stages(ks)[:-1]:
        x, _ = _SECTORS["traced-sectors"](stage).value(x)
        pairs.append(x.legs[0])
    return tuple(pairs[1:])


@lru_cache
def _jitted(method, ks):
    # One jitted object per method and schedule: a fresh partial at every call would be traced again.
    function = partial(_TRACEABLE[method], ks=ks)

    def second(beta):
        return jax.jvp(jax.grad(function), (beta,), (jnp.ones_like(beta),))[1]

    return jax.jit(function), jax.jit(jax.value_and_grad(function)), jax.jit(second)


def _check(beta, chi, steps, method, schedule):
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(map(repr, METHODS))}")
    if schedule is None:
        ks = trg.schedule(chi, steps)
    elif (chi, steps) != (16, 20):
        raise ValueError(f"give either schedule or chi and steps, got schedule={schedule!r}, chi={chi!r}, steps={steps!r}")
    else:
        ks = (sectors if method in _SECTORS else trg).check_schedule(schedule)
    if not isinstance(beta, jax.core.Tracer):
        beta = np.float64(check_beta(beta))  # of NumPy: inside jit a JAX array would be traced
        return jnp.asarray(beta) if method in _TRACEABLE else beta, ks
    if method not in _TRACEABLE:
        raise TypeError(
            f"method {method!r} runs compiled programs from Python and needs beta as a number, not a traced value; "
            f"inside jit, grad or vmap use one of {', '.join(map(repr, _TRACEABLE))}"
        )
    if beta.shape != () or jnp.issubdtype(beta.dtype, jnp.complexfloating):
        raise ValueError(f"beta must be a real scalar, got shape {beta.shape} of {beta.dtype}; map over many with jax.vmap")
    return beta.astype(jnp.float64), ks


def _check_finite(result, beta, ks, method):
    leaves = jax.tree.leaves(result)
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves) and not np.isfinite(leaves).all():
        raise FloatingPointError(
            f"{method} at beta = {beta} with schedule {ks} gave {result}: singular values or norms left the range of "
            "float64; a schedule that keeps fewer values (trgnb.schedule) avoids it"
        )
    return result

"""The square-lattice Ising model: its initial tensor and its exact solutions.

Everything is per spin, with J = 1 and beta = J / k_B T.  ``size=None`` is the infinite lattice
(Onsager); ``size=L`` is the torus of L x L spins (Kaufman).
"""

import operator
from functools import partial

import jax
import numpy as np
from jax import grad, jit
from jax import numpy as jnp
from scipy.integrate import quad
from scipy.special import ellipkm1, elliprd

BETA_CRITICAL = float(np.log1p(np.sqrt(2.0)) / 2.0)
"""Onsager's critical point, sinh(2 beta) = 1."""

BETA_MAX = 80.0
"""Largest beta accepted: above 88, exp(8 beta), met in the second derivative of a norm, leaves float64."""

# Derivatives of the torus formula subtract terms of order 1 / beta from each other.
_BETA_TORUS = 1e-3

# Below this beta the closed forms cancel to (relative) 1e-16 / beta**2, while the high-temperature
# series, cut after tanh(beta)**14, is exact to the last digit.
_BETA_SERIES = 0.02
# ln Z/N = ln 2 + 2 ln cosh(beta) + v^4 + 2 v^6 + 9/2 v^8 + 12 v^10 + 112/3 v^12 + 130 v^14 + ..., v = tanh(beta)
_LOOPS = np.polynomial.Polynomial([0, 0, 0, 0, 1, 0, 2, 0, 4.5, 0, 12, 0, 112 / 3, 0, 130])


def check_beta(beta):
    """Return beta as a float, or raise ValueError that says what is allowed."""
    if not jax.config.jax_enable_x64:
        raise RuntimeError("trgnb computes in float64: keep jax_enable_x64 on (importing trgnb switches it on)")
    try:
        if isinstance(beta, str | bytes | bool) or np.iscomplexobj(beta):
            raise TypeError
        value = float(beta)
    except (TypeError, ValueError):
        raise ValueError(f"beta must be one real number, got {beta!r}; call once for each of several") from None
    if not 0.0 < value <= BETA_MAX:
        raise ValueError(f"beta must be finite, positive and at most {BETA_MAX:g}, got {value!r}")
    return value


def initial_tensor(beta, xp=jnp):
    r"""Tensor of one spin with four bonds, shape (2, 2, 2, 2), legs (up, right, down, left).

    Each bond weight exp(beta s s') is split as M M^T with M = [[sqrt c, sqrt s], [sqrt c, -sqrt s]],
    c = cosh(beta), s = sinh(beta), and T_ijkl = sum_spin M_i M_j M_k M_l: zero unless the number of
    ones among the indices is even, else 2 c^2, 2 c s or 2 s^2.  The closed form needs no square
    root, so it is smooth in beta, and the tensor is Z2-even to the last bit.

    beta: inverse temperature J / k_B T, a scalar of the array namespace ``xp``.
    Source: Levin and Nave, Phys. Rev. Lett. 99, 120601 (2007), for the lattice of tensors.

    >>> t = ising.initial_tensor(0.3, xp=np)
    >>> z = np.einsum("ijij->", t)  # one spin, bonded to itself
    >>> t.shape, bool(np.isclose(z, 2 * np.exp(2 * 0.3)))
    ((2, 2, 2, 2), True)
    """
    ones = np.indices((2, 2, 2, 2)).sum(axis=0)
    cosh, sinh = xp.cosh(beta), xp.sinh(beta)
    return (
        2.0 * cosh * cosh * (ones == 0).astype(float)
        + 2.0 * cosh * sinh * (ones == 2).astype(float)
        + 2.0 * sinh * sinh * (ones == 4).astype(float)
    )


def exact_lnz(beta, size=None):
    """Exact ln Z per spin at inverse temperature beta, a float.

    size: None for the infinite lattice, L for the torus of L x L spins.
    Errors: ValueError for beta not in (0, 80] or size < 2.
    Source: Onsager, Phys. Rev. 65, 117 (1944); Kaufman, Phys. Rev. 76, 1232 (1949).

    >>> round(ising.exact_lnz(0.3), 6), round(ising.exact_lnz(0.3, size=2), 6)
    (0.790559, 0.883259)
    """
    beta = check_beta(beta)
    if size is not None:
        return float(_torus_lnz(beta, _check_size(size)))
    if beta < _BETA_SERIES:
        return float(np.log(2.0) + 2.0 * np.log(np.cosh(beta)) + _LOOPS(np.tanh(beta)))
    # 1 - kappa^2 sin^2 = kappa1^2 + (1 - kappa1^2) cos^2: no cancellation at the critical point,
    # where kappa1 = 0 and the square root has its kink at the end of the interval.
    kappa1, kappa = _kappa1(beta), 2.0 * np.tanh(2.0 * beta) / np.cosh(2.0 * beta)

    def integrand(angle):
        return np.log1p(np.hypot(kappa1, kappa * np.sin(angle)))

    corner = min(abs(kappa1), 0.5)  # the kink is |kappa1| wide
    parts = [
        quad(integrand, lower, upper, epsabs=1e-14, epsrel=1e-13, limit=200)[0]
        for lower, upper in [(0.0, corner), (corner, np.pi / 2)]
    ]
    return float(2.0 * beta + np.log1p(np.exp(-4.0 * beta)) - np.log(2.0) / 2.0 + sum(parts) / np.pi)


def exact_energy(beta, size=None):
    """Exact energy per spin u = -d(ln Z/N)/d beta (in units of J), a float.

    size and errors: as for ``exact_lnz``; with a size also ValueError for beta < 0.001.
    Source: Onsager (1944); Kaufman (1949), here differentiated by JAX where a size is given.

    >>> round(ising.exact_energy(ising.BETA_CRITICAL), 6)
    -1.414214
    """
    beta = check_beta(beta)
    if size is not None:
        return -float(_torus_first(_check_torus_beta(beta), _check_size(size)))
    if beta < _BETA_SERIES:
        v = np.tanh(beta)
        return float(-2.0 * v - (1.0 - v * v) * _LOOPS.deriv()(v))
    kappa1 = _kappa1(beta)
    # kappa1 K(kappa) -> 0 at the critical point, where K itself diverges.
    singular = kappa1 * ellipkm1(kappa1 * kappa1) if kappa1 else 0.0
    return float(-(1.0 + 2.0 / np.pi * singular) / np.tanh(2.0 * beta))


def exact_specific_heat(beta, size=None):
    """Exact specific heat per spin c / k_B = beta^2 d^2(ln Z/N)/d beta^2, a float.

    size: as for ``exact_lnz``.  With a size the error is absolute, about 1e-13 up to beta = 10, and grows above (to
    4e-10 at beta = 80 and size 1024), while c falls like exp(-8 beta): beyond beta = 4 few digits of it are left, at 5 none.
    Errors: ValueError as for ``exact_energy``; also at the critical point of the infinite lattice,
    where c diverges logarithmically.
    Source: Onsager (1944); Kaufman (1949), here differentiated by JAX where a size is given.

    >>> round(ising.exact_specific_heat(0.3), 6)
    0.28629
    """
    beta = check_beta(beta)
    if size is not None:
        return beta * beta * float(_torus_second(_check_torus_beta(beta), _check_size(size)))
    if beta < _BETA_SERIES:
        v = np.tanh(beta)
        first, second = _LOOPS.deriv()(v), _LOOPS.deriv(2)(v)
        return float(beta * beta * (1.0 - v * v) * (2.0 - 2.0 * v * first + (1.0 - v * v) * second))
    kappa1 = _kappa1(beta)
    if kappa1 == 0.0:
        raise ValueError(f"the specific heat diverges at the critical point, beta = {beta!r}; give a size instead")
    # ellipkm1 takes 1 - m, which stays exact near the critical point where m -> 1; Carlson's integral gives
    # K - E without the cancellation of the two at low temperature, where m -> 0.
    first = ellipkm1(kappa1 * kappa1)
    difference = (2.0 * np.tanh(2.0 * beta) / np.cosh(2.0 * beta)) ** 2 / 3.0 * elliprd(0.0, kappa1 * kappa1, 1.0)
    bracket = difference - (np.pi / 2.0 + kappa1 * first) / np.cosh(2.0 * beta) ** 2
    return float(4.0 / np.pi * (beta / np.tanh(2.0 * beta)) ** 2 * bracket)


def _kappa1(beta):
    """2 tanh(2 beta)^2 - 1 with its zero at the critical point kept to full precision."""
    tanh = np.tanh(2.0 * beta)
    return 2.0 * (tanh - np.sqrt(0.5)) * (tanh + np.sqrt(0.5))


def _check_size(size):
    try:
        count = operator.index(size)
    except TypeError:
        count = 0
    if count < 2:
        raise ValueError(f"size must be a whole number of at least 2 spins along each side, got {size!r}")
    return count


def _check_torus_beta(beta):
    if beta < _BETA_TORUS:
        raise ValueError(f"beta must be at least {_BETA_TORUS:g} for a derivative on a torus, got {beta!r}; give no size")
    return beta


@partial(jit, static_argnames="size")
def _torus_lnz(beta, size):
    """Kaufman's four products, ln of (Z1 + Z2 + Z3 + Z4) / 2 per spin.

    Z2 / Z1 and Z4 / Z3 are products of tanh, so the sum never overflows and the sign of
    gamma_0, negative above the critical temperature, takes care of itself.
    """
    sinh = jnp.sinh(2.0 * beta)
    # cosh gamma - 1 with the part that vanishes at the critical point as a square
    critical = (1.0 / jnp.sqrt(sinh) - jnp.sqrt(sinh)) ** 2
    angle = jnp.pi * np.arange(1, 2 * size) / size
    gamma = 2.0 * jnp.arcsinh(jnp.sqrt((critical + 1.0 - jnp.cos(angle)) / 2.0))
    gamma_0 = 2.0 * beta + jnp.log(jnp.tanh(beta))
    odd = size / 2.0 * gamma[0::2]
    even = size / 2.0 * jnp.append(gamma_0, gamma[1::2])
    lnz1, lnz3 = (jnp.logaddexp(x, -x).sum() for x in (odd, even))
    z21, z43 = (jnp.prod(jnp.tanh(x)) for x in (odd, even))
    total = lnz1 + jnp.log((1.0 + z21) + jnp.exp(lnz3 - lnz1) * (1.0 + z43))
    return jnp.log(2.0 * sinh) / 2.0 + (total - jnp.log(2.0)) / size**2


_torus_first = jit(grad(_torus_lnz), static_argnames="size")
_torus_second = jit(grad(grad(_torus_lnz)), static_argnames="size")

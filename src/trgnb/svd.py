r"""Differentiable thin SVD with a Lorentzian rule, and the square root that survives zeros.

For A = U S V^H the differential needs F_ij = 1 / (s_j^2 - s_i^2), infinite at a degenerate pair.  The
Lorentzian rule replaces 1/x by x / (x^2 + eps^2) (Liao, Liu, Wang and Xiang, Phys. Rev. X 9, 031041
(2019), sec. III.B): zero at a degenerate pair, where a function that does not depend on the choice of
basis inside the pair has nothing to pick up, and unchanged where the pair is well split.
"""

from functools import partial

import jax
import numpy as np
from jax import numpy as jnp


def svd(a, eps=1e-12):
    """Thin singular value decomposition A = U diag(s) Vh, differentiable at degenerate and zero values.

    a: matrix (m, n), real or complex, float32 or float64 (integers become float64).
    eps: width of the broadening, relative to the largest singular value squared, a plain number > 0.
    Returns the tuple u (m, k), s (k,) descending, vh (k, n), with k = min(m, n).

    Forward mode, reverse mode, second derivatives, jit and vmap work.  The derivative is right for every
    function of the factors that does not depend on the gauge: signs (phases) of the vectors, and the
    basis chosen inside a degenerate space.  Entries of u or vh alone have no derivative at a degenerate pair.

    Errors: ValueError for an input that is not a matrix, has an empty side, or (outside jit) is not
    finite, and for eps <= 0.
    Source: Liao et al. (2019), eq. (8) for F; Wan and Zhang, arXiv:1909.02659 (2019), for the complex case.
    """
    a = jnp.asarray(a)
    if a.ndim != 2 or 0 in a.shape:
        raise ValueError(f"svd takes a matrix with at least one row and column, got shape {a.shape}; use jax.vmap for a stack")
    if not 0.0 < eps < np.inf:
        raise ValueError(f"eps must be a finite number > 0, relative to the largest singular value, got {eps!r}")
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        a = a.astype(jnp.float64)
    if not isinstance(a, jax.core.Tracer) and not bool(jnp.isfinite(a).all()):
        raise ValueError("svd takes a matrix of finite numbers, got NaN or infinity among its entries")
    return _svd(a, float(eps))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _lorentz(x, eps2):
    return x / (x * x + eps2)


@_lorentz.defjvp
def _lorentz_jvp(eps2, primals, tangents):
    (x,), (dx,) = primals, tangents
    f = _lorentz(x, eps2)
    return f, -f * f * dx


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _svd(a, eps):
    # A plain tuple, like the one the rule returns: lax.scan refuses a rule whose container differs.
    return tuple(jnp.linalg.svd(a, full_matrices=False))


@_svd.defjvp
def _svd_jvp(eps, primals, tangents):
    (a,), (da,) = primals, tangents
    u, s, vh = _svd(a, eps)
    uh, v = u.conj().T, vh.conj().T
    # All spectra are taken relative to s[0], so that eps means the same at every scale of A.
    scale = jnp.where(s[0] > 0, s[0], 1)
    r = s / scale
    # eps^2 may not underflow, or a degenerate pair gives 0 / 0.
    eps2 = max(eps * eps, float(jnp.finfo(s.dtype).tiny))

    dp = uh @ da @ v / scale
    ds = jnp.real(jnp.diagonal(dp)) * scale
    # (r_j - r_i)(r_j + r_i) keeps the digits that r_j^2 - r_i^2 cancels.
    gap = (r[None, :] - r[:, None]) * (r[None, :] + r[:, None])
    f = _lorentz(gap, eps2)
    r_inv = _lorentz(r, eps2)
    left, right = dp * r[None, :], r[:, None] * dp
    du = u @ (f * (left + left.conj().T))
    dv = v @ (f * (right + right.conj().T))
    if jnp.iscomplexobj(a):
        # The phase that dA turns between u_i and v_i: given to u alone, a gauge choice.
        du = du + u * (1j * jnp.imag(jnp.diagonal(dp)) * r_inv)[None, :]
    m, n = a.shape
    if m > n:
        dav = da @ v / scale
        du = du + (dav - u @ (uh @ dav)) * r_inv[None, :]
    if n > m:
        dahu = da.conj().T @ u / scale
        dv = dv + (dahu - v @ (vh @ dahu)) * r_inv[None, :]
    return (u, s, vh), (du, ds, dv.conj().T)


def safe_sqrt(s, tol=1e-14, xp=jnp):
    """Square root of singular values that drops those at or below tol, with a finite derivative.

    s: array of values >= 0; tol: absolute threshold, a plain number.  Entries with s <= tol give 0 and
    have derivative 0.  Both branches of a ``where`` are differentiated, so the values that are dropped
    must leave the argument of the root as well as the result (the "double where").
    """
    keep = s > tol
    return xp.where(keep, xp.sqrt(xp.where(keep, s, 1.0)), 0.0)

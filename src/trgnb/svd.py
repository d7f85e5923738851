r"""Differentiable thin SVD with a Lorentzian rule, and the square root that survives zeros.

For A = U S V^H the differential needs 1 / (s_j - s_i), infinite at a degenerate pair.  The
Lorentzian rule replaces 1/x by x / (x^2 + eps^2) (Liao, Liu, Wang and Xiang, Phys. Rev. X 9, 031041
(2019), who write eps for eps^2): zero at a degenerate pair, where a function that does not depend on the choice of
basis inside the pair has nothing to pick up, and unchanged where the pair is well split.  The code that accompanies
the paper takes x = s_j - s_i with eps^2 = 1e-12, and keeps 1 / (s_j + s_i) apart, which is finite there.  The latter
is done here as well; but x is the gap of the squares relative to the largest, (s_j^2 - s_i^2) / s_0^2, and s_j + s_i
and s_i are broadened too, for values that are zero.
"""

from functools import partial

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


def svd(a, eps=1e-12):
    """Thin singular value decomposition A = U diag(s) Vh, differentiable at degenerate and zero values.

    a: matrix (m, n), real or complex, float32 or float64 (integers become float64).
    eps: width of the broadening, relative to the largest singular value squared, a plain number > 0.
    Returns the tuple u (m, k), s (k,) descending, vh (k, n), with k = min(m, n).

    Forward mode, reverse mode, second derivatives, jit, vmap, scan and checkpoint work.  The derivative is
    right for functions of the factors that do not depend on the gauge: the signs (phases) of the vectors,
    and the basis of a degenerate space.  Where the values of a pair are equal within eps, what dA does to split the
    pair off the diagonal is dropped: no loss for symmetric functions of the pair, nor where it is zero because the
    members of the pair differ under a symmetry of A and dA, as in the TRG; a truncated product u_k s_k vh_k whose
    kept values are equal is better written u_k u_k^H a.  A second derivative there, or at dropped values that are equal or zero, wants such a dA.
    Entries of u or vh alone have no derivative at a degenerate pair.

    The default eps suits float64 and values down to about 1e-4 of the largest: a cut among values of 1e-4 is off by
    1e-9, of 1e-5 by 1e-5, of 1e-6 by a tenth, which wants a smaller one.  At a pair that is equal up to rounding it
    leaves noise of about 1e-7.  In float32 take 1e-4.

    Errors: ValueError for an input that is not a matrix, has an empty side, or (outside jit) is not
    finite, and for eps <= 0.
    Source: Liao et al. (2019) for the broadened rule and its two parts; Wan and Zhang, arXiv:1909.02659 (2019), for the complex case.

    >>> u, s, vh = svd.svd(np.ones((3, 2)))
    >>> u.shape, s.shape, vh.shape
    ((3, 2), (2,), (2, 2))
    >>> gradient = jax.grad(lambda a: svd.svd(a)[1].sum())(np.eye(2))
    >>> bool(np.allclose(gradient, np.eye(2)))  # two equal values
    True
    """
    a = jnp.asarray(a)
    if a.ndim != 2 or 0 in a.shape:
        raise ValueError(f"svd takes a matrix with at least one row and column, got shape {a.shape}; use jax.vmap for a stack")
    if not 0.0 < eps < np.inf:
        raise ValueError(f"eps must be a finite number > 0, relative to the largest singular value squared, got {eps!r}")
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        a = a.astype(jnp.float64)
    if not isinstance(a, jax.core.Tracer) and not bool(jnp.isfinite(a).all()):
        raise ValueError("svd takes a matrix of finite numbers, got NaN or infinity among its entries")
    return tuple(_svd_p.bind(a, eps=float(eps)))


def _thin(a, eps):
    del eps  # the width of the rule, not of the value
    return tuple(jnp.linalg.svd(a, full_matrices=False))


# A primitive rather than a jax.custom_jvp function: the partial evaluation of lax.scan in JAX 0.10 runs a
# custom_jvp function by its body, so that a second derivative meets JAX's own rule, and NaN, there.
_svd_p = Primitive("trgnb_svd")
_svd_p.multiple_results = True
_svd_p.def_impl(jax.jit(_thin, static_argnames="eps"))
mlir.register_lowering(_svd_p, mlir.lower_fun(_thin, multiple_results=True))


@_svd_p.def_abstract_eval
def _svd_shapes(a, *, eps):
    u, s, vh = jax.eval_shape(partial(_thin, eps=eps), jax.ShapeDtypeStruct(a.shape, a.dtype))
    return tuple(ShapedArray(x.shape, x.dtype) for x in (u, s, vh))


def _svd_batch(args, axes, *, eps):
    return _svd_p.bind(jnp.moveaxis(args[0], axes[0], 0), eps=eps), (0, 0, 0)


def _svd_jvp(primals, tangents, *, eps):
    (a,), da = primals, ad.instantiate_zeros(tangents[0])
    rule = partial(_svd_matrix_jvp, eps=eps)
    for _ in range(a.ndim - 2):
        rule = jax.vmap(rule)
    return rule(a, da)


batching.primitive_batchers[_svd_p] = _svd_batch
ad.primitive_jvps[_svd_p] = _svd_jvp


def _svd_matrix_jvp(a, da, eps):
    u, s, vh = _svd_p.bind(a, eps=eps)
    uh, v = u.conj().T, vh.conj().T
    # All spectra are taken relative to s[0], so that eps means the same at every scale of A.
    scale = jnp.where(s[0] > 0, s[0], 1)
    r = s / scale
    # eps^2 may not underflow, or a degenerate pair gives 0 / 0.
    eps2 = max(eps * eps, float(jnp.finfo(s.dtype).tiny))

    dp = uh @ da @ v / scale
    ds = jnp.real(jnp.diagonal(dp)) * scale
    # What turns u_i, u_j and v_i, v_j together is divided by r_j - r_i = (r_j^2 - r_i^2) / (r_j + r_i), and
    # broadened; what turns them against each other by r_j + r_i, finite at a degenerate pair as well
    # (and for i = j the phase between u_i and v_i, which a complex dA turns).
    total = r[None, :] + r[:, None]
    # The product keeps the digits that r_j^2 - r_i^2 cancels.  The mask is no luxury: fused code may round the
    # two r differently, and their difference is then not zero for i = j.
    gap = jnp.where(np.eye(s.size, dtype=bool), 0, (r[None, :] - r[:, None]) * total)
    together = _lorentz(gap, eps2) * total * (dp + dp.conj().T) / 2
    against = _lorentz(total, eps2) * (dp - dp.conj().T) / 2
    du, dv = u @ (together + against), v @ (together - against)
    m, n = a.shape
    if m > n:
        dav = da @ v / scale
        du = du + (dav - u @ (uh @ dav)) * _lorentz(r, eps2)[None, :]
    if n > m:
        dahu = da.conj().T @ u / scale
        dv = dv + (dahu - v @ (vh @ dahu)) * _lorentz(r, eps2)[None, :]
    return (u, s, vh), (du, ds, dv.conj().T)


def _lorentz(x, eps2):
    """x / (x^2 + eps2), with the derivative -f^2 of 1/x.

    The true derivative is 1 / eps2 at x = 0: a second derivative would multiply rounding errors by 1e24.
    """
    safe = jnp.where(x == 0, 1, x)
    return jnp.where(x == 0, 0, 1 / (safe + lax.stop_gradient(eps2 / safe)))


def safe_sqrt(s, tol=1e-14, xp=jnp):
    """Square root of singular values that drops those at or below tol, with a finite derivative.

    s: array of values >= 0.
    tol: absolute threshold, a plain number (the default is for float64 and a largest value near 1; float32
    residues are near 1e-8).  xp: array namespace.

    Entries with s <= tol give 0 and have derivative 0.  Both branches of a ``where`` are differentiated, so the
    values that are dropped must leave the argument of the root as well as the result (the "double where").
    Errors: ValueError for tol < 0.

    >>> jax.grad(lambda s: svd.safe_sqrt(s).sum())(np.array([4.0, 0.0])).tolist()
    [0.25, 0.0]
    """
    if not tol >= 0.0:
        raise ValueError(f"tol must be a number >= 0, got {tol!r}: below zero the root of an exact zero would be kept")
    drop = s <= tol  # not "keep = s > tol", which would turn NaN into zero
    return xp.where(drop, 0.0, xp.sqrt(xp.where(drop, 1.0, s)))

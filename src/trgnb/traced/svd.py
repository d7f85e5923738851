"""Singular value decompositions: the thin one with a Lorentzian rule, and the full one without a derivative."""

import numpy as np

from trgnb.traced.contract import einsum
from trgnb.traced.elementwise import conj, convert, lorentz, real, where
from trgnb.traced.extents import at_most, minimum
from trgnb.traced.graph import Op, apply
from trgnb.traced.matrices import adjoint, antihermitian, as_matrix, check_finite, hermitian, plus, real_dtype, scaled_rows
from trgnb.traced.shapes import reshape, take


def _flush(s, shape):
    """Values below rounding as an exact zero with a negative sign, as the Rust library faer may return them."""
    return np.where(s <= np.finfo(s.dtype).eps * max(shape) * s[0], -np.zeros_like(s), s)


_DRIVERS = {"lapack": lambda s, shape: s, "flush": _flush}


def _svd_infer(a, eps, driver):
    m, n = as_matrix("svd", a)
    k = minimum(m, n)
    return [((m, k), a.dtype), ((k,), real_dtype(a.dtype)), ((k, n), a.dtype)]


def _svd_kernel(a, eps, driver):
    check_finite("svd", a)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return u, _DRIVERS[driver](s, a.shape), vh


def _broadened(s, eps):
    """The scale s[0], and the broadened 1 / (r_j - r_i), 1 / (r_j + r_i) and 1 / r_i of r = s / s[0].

    Relative to s[0], so that eps means the same at every scale.  eps^2 may not underflow, or an equal pair gives 0 / 0.
    """
    first = take(s, [0], 0)
    scale = where(first > 0.0, first, 1.0)
    r = s / scale
    eps2 = max(eps * eps, float(np.finfo(s.dtype).tiny))
    column = reshape(r, (r.shape[0], 1))
    plus = r + column
    return scale, lorentz((r - column) * plus, eps2) * plus, lorentz(plus, eps2), lorentz(r, eps2)


def _svd_jvp(node, tangents):
    """dU = U (F o (dP + dP^H)/2 + G o (dP - dP^H)/2) + (1 - U U^H) dA V / S, dV likewise; dP = U^H dA V."""
    (a,), (u, s, vh), (da,) = node.inputs, node.outputs, tangents
    scale, f, g, inverse = _broadened(s, node.params["eps"])
    v, da = adjoint(vh), da / convert(scale, da.dtype)
    dav = da @ v
    dp = adjoint(u) @ dav
    ds = real(einsum("ii->i", dp)) * scale
    together, against = f * hermitian(dp), g * antihermitian(dp)
    du, dv = u @ (together + against), v @ (together - against)
    if not at_most(*a.shape):
        du = du + (dav - u @ dp) * inverse
    if not at_most(*a.shape[::-1]):
        dahu = adjoint(da) @ u
        dv = dv + (dahu - v @ adjoint(dp)) * inverse
    return du, ds, adjoint(dv)


def _svd_vjp(node, cts, i):
    """The adjoint of the jvp: A' = U (diag(s') + M) V^H and, outside the columns of U and V, U' / S V^H and U / S V'^H."""
    (a,), (u, s, vh) = node.inputs, node.outputs
    gu, gs, gvh = (None if ct is None else conj(ct) for ct in cts)
    uh, gv = adjoint(u), None if gvh is None else adjoint(gvh)
    inner = rows = columns = None
    if gu is not None or gv is not None:
        scale, f, g, inverse = _broadened(s, node.params["eps"])
        x = None if gu is None else uh @ gu
        y = None if gv is None else vh @ gv
        inner = plus(
            f * antihermitian(plus(x, y)),
            g * antihermitian(plus(x, None if y is None else -y)),
        )
        inner = inner / convert(scale, inner.dtype)
        inverse = inverse / scale
        if gu is not None and not at_most(*a.shape):
            rows = (gu - u @ x) * inverse
        if gv is not None and not at_most(*a.shape[::-1]):
            columns = scaled_rows(inverse, adjoint(gv - adjoint(vh) @ y))
    if gs is not None:
        diagonal = u * gs
        inner = diagonal if inner is None else diagonal + u @ inner
    else:
        inner = u @ inner
    ga = plus(inner, rows) @ vh
    return conj(plus(ga, None if columns is None else u @ columns))


SVD = Op("svd", _svd_infer, _svd_kernel, vjp=_svd_vjp, jvp=_svd_jvp)


def _svd_full_infer(a):
    m, n = as_matrix("svd_full", a)
    return [((m, m), a.dtype), ((minimum(m, n),), real_dtype(a.dtype)), ((n, n), a.dtype)]


def _svd_full_kernel(a):
    check_finite("svd_full", a)
    return tuple(np.linalg.svd(a, full_matrices=True))


SVD_FULL = Op(
    "svd_full", _svd_full_infer, _svd_full_kernel,
    no_rule=": the columns beyond the rank are any basis of what is left; use svd, which is thin",
)  # fmt: skip


def svd(a, eps=1e-12, driver="lapack"):
    """Thin singular value decomposition a = u @ diag(s) @ vh, differentiable at equal and at zero values.

    a: matrix (m, n), real or complex.  Returns u (m, k), s (k,) descending, vh (k, n), with k = ``Min(m, n)``.
    eps: width of the broadening of 1/x in the derivative, relative to the largest singular value squared.
    driver: "lapack" returns the values as LAPACK does, "flush" those below rounding, max(m, n) * ulp * s[0], as -0.0.
    Errors: FloatingPointError when it runs on a matrix that is not finite.
    Source: Liao, Liu, Wang and Xiang, Phys. Rev. X 9, 031041 (2019); Wan and Zhang, arXiv:1909.02659 (2019).

    >>> u, s, vh = traced.svd(traced.placeholder((2, 2)))
    >>> s.shape, s.concrete_shape
    ((Min(Const(2), Const(2)),), (2,))
    """
    if driver not in _DRIVERS:
        raise ValueError(f"driver must be one of {', '.join(map(repr, _DRIVERS))}, got {driver!r}")
    if not 0.0 < eps < np.inf:
        raise ValueError(f"eps must be a finite number > 0, relative to the largest singular value squared, got {eps!r}")
    return apply(SVD, a, eps=float(eps), driver=driver)


def svd_full(a):
    """Singular value decomposition with square u (m, m) and vh (n, n); it has no derivative.

    >>> u, s, vh = traced.svd_full(traced.eager(np.ones((3, 2))))
    >>> u.concrete_shape, s.concrete_shape, vh.concrete_shape
    ((3, 3), (2,), (2, 2))
    """
    return apply(SVD_FULL, a)

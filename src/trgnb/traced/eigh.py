"""The decomposition of a Hermitian matrix, with a broadened rule."""

import numpy as np

from trgnb.traced.contract import einsum
from trgnb.traced.elementwise import absolute, conj, convert, lorentz, real, where
from trgnb.traced.extents import Const, known
from trgnb.traced.graph import Op, apply
from trgnb.traced.matrices import adjoint, as_square, check_finite, hermitian, plus, real_dtype
from trgnb.traced.shapes import reshape, total


def _eigh_infer(a, eps):
    n = as_square("eigh", a)
    n = Const(known(n)) if known(n) is not None else n
    return [((n,), real_dtype(a.dtype)), ((n, n), a.dtype)]


def _eigh_kernel(a, eps):
    check_finite("eigh", a)
    return tuple(np.linalg.eigh(a))


def _eigen_gaps(w, eps):
    """The scale sum |w| and the broadened 1 / (r_j - r_i) of r = w / scale."""
    size = total(absolute(w))  # no square, which leaves the range of floating point at 1e200
    scale = where(size > 0.0, size, 1.0)
    r = w / scale
    return scale, lorentz(r - reshape(r, (r.shape[0], 1)), max(eps * eps, float(np.finfo(w.dtype).tiny)))


def _eigh_jvp(node, tangents):
    """dV = V (F o V^H dA V), dw = diag(V^H dA V), F_ij = 1 / (w_j - w_i)."""
    (w, v), (da,) = node.outputs, tangents
    scale, gaps = _eigen_gaps(w, node.params["eps"])
    dp = adjoint(v) @ da @ v
    return real(einsum("ii->i", dp)), v @ (gaps * dp / convert(scale, dp.dtype))


def _eigh_vjp(node, cts, i):
    """A' = V (diag(w') + F o V^H V') V^H."""
    w, v = node.outputs
    gw, gv = (None if ct is None else conj(ct) for ct in cts)
    left = None if gw is None else v * gw
    if gv is not None:
        scale, gaps = _eigen_gaps(w, node.params["eps"])
        inner = gaps * (adjoint(v) @ gv)
        left = plus(left, v @ (inner / convert(scale, inner.dtype)))
    return conj(left @ adjoint(v))


EIGH = Op("eigh", _eigh_infer, _eigh_kernel, vjp=_eigh_vjp, jvp=_eigh_jvp)


def eigh(a, eps=1e-12):
    """Eigenvalues w (n,), ascending, and eigenvectors v (n, n) of (a + a^H) / 2, differentiable at equal values.

    eps: width of the broadening of 1/x in the derivative, relative to the sum of |w|.
    Errors: ValueError for a matrix that is not square; FloatingPointError when it runs on one that is not finite.

    >>> w, v = traced.eigh(traced.eager(np.diag([2.0, 1.0])))
    >>> w.value.round(6).tolist()
    [1.0, 2.0]
    """
    as_square("eigh", a)
    return apply(EIGH, hermitian(a), eps=float(eps))

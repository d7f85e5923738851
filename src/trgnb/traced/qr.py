"""The reduced QR decomposition and its rules, for tall and for wide matrices."""

import numpy as np

from trgnb.traced.elementwise import conj, convert, real
from trgnb.traced.extents import at_most, known, minimum, shown
from trgnb.traced.graph import DerivativeError, Op, apply
from trgnb.traced.matrices import adjoint, as_matrix, check_finite, plus, solve
from trgnb.traced.shapes import scatter, take, transpose


def _qr_infer(a):
    m, n = as_matrix("qr", a)
    k = minimum(m, n)
    return [((m, k), a.dtype), ((k, n), a.dtype)]


def _qr_kernel(a):
    check_finite("qr", a)
    return tuple(np.linalg.qr(a))


def _strictly_lower(x):
    return apply(LOWER, x)


LOWER = Op(
    "lower", lambda x: [(x.shape, x.dtype)], lambda x: np.tril(x, -1), vjp=lambda node, ct, i: _strictly_lower(ct), multilinear=True
)  # fmt: skip


def _diagonal_part(x):
    """The matrix with the diagonal of x and zeros elsewhere."""
    return x - _strictly_lower(x) - transpose(_strictly_lower(transpose(x)))


def _qr_jvp(node, tangents):
    """dQ = dA R^-1 - Q (X - O), dR = (X - O) R, with X = Q^H dA R^-1 and O its antihermitian completion."""
    (a,), (q, r), (da,) = node.inputs, node.outputs, tangents
    wide = _wide(a)
    # a wide a = [b c]: q and the square part of r come from b, and r's other columns are q^H c
    square, db = (_columns(r, wide), _columns(da, wide)) if wide else (r, da)
    right = transpose(solve(transpose(square), transpose(db)))
    x = adjoint(q) @ right
    low = _strictly_lower(x)
    turn = low - adjoint(low)
    if a.dtype.kind == "c":
        diagonal = _diagonal_part(x)
        turn = turn + diagonal - convert(real(diagonal), a.dtype)
    dq = q @ (turn - x) + right
    return dq, (adjoint(q) @ da - adjoint(q) @ dq @ r if wide else (x - turn) @ r)


def _qr_vjp(node, cts, i):
    """A' = (Q' + Q copyltu(M)) R^-H with M = R R'^H - Q'^H Q (Walter and Lehmann, J. Comput. Appl. Math. (2013))."""
    (a,), (q, r) = node.inputs, node.outputs
    gq, gr = (None if ct is None else conj(ct) for ct in cts)
    wide = _wide(a)
    rest = None
    if wide:
        n, square = known(a.shape[1]), _columns(r, wide)
        if gr is not None:
            outside = list(range(wide, n))
            grest, gr = take(gr, outside, 1), _columns(gr, wide)
            gq = plus(gq, take(a, outside, 1) @ adjoint(grest))
            rest = q @ grest
    else:
        square = r
    m = plus(None if gr is None else square @ adjoint(gr), None if gq is None else -(adjoint(gq) @ q))
    low = _strictly_lower(m)
    symmetric = low + adjoint(low) + convert(real(_diagonal_part(m)), a.dtype)
    left = plus(gq, q @ symmetric)
    ga = adjoint(solve(square, adjoint(left)))
    if wide:
        # columns side by side, as sums of padded blocks
        ga = _placed(ga, 0, n) if rest is None else _placed(ga, 0, n) + _placed(rest, wide, n)
    return conj(ga)


def _wide(a):
    """The number of rows of a matrix that is wide, 0 for one that is not."""
    m, n = a.shape
    if at_most(n, m):
        return 0
    if known(m) is None or known(n) is None:
        raise DerivativeError(f"the derivative of qr needs known extents, or a square matrix, got {shown(a.shape)}")
    return known(m)


def _columns(x, n):
    return take(x, list(range(n)), 1)


def _placed(x, first, n):
    return scatter(x, range(first, first + known(x.shape[1])), 1, n)


QR = Op("qr", _qr_infer, _qr_kernel, vjp=_qr_vjp, jvp=_qr_jvp)


def qr(a):
    """Reduced decomposition a = q @ r: q (m, k) with orthonormal columns, r (k, n) upper triangular, k = ``Min(m, n)``.

    Errors: FloatingPointError when it runs on a matrix that is not finite.

    >>> q, r = traced.qr(traced.eager(np.ones((3, 2))))
    >>> q.concrete_shape, r.concrete_shape
    ((3, 2), (2, 2))
    """
    return apply(QR, a)

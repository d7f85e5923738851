"""What the decompositions share: checks of a matrix, adjoints, and the solution of linear systems.

Cotangents follow JAX's convention, df = Re sum(ct * dx).  In terms of Z = conj(ct), the gradient in the usual inner
product, the formulas of the decompositions are those of the papers; so a rule conjugates on its way in and out.
"""

import numpy as np

from trgnb.traced.contract import matmul
from trgnb.traced.elementwise import conj, to_common_dtype
from trgnb.traced.extents import known, same, shown
from trgnb.traced.graph import Op, apply
from trgnb.traced.shapes import reshape, transpose


def as_matrix(name, x):
    if x.ndim != 2 or 0 in map(known, x.shape):
        raise ValueError(f"{name} takes a matrix with at least one row and column, got {x.dtype}{shown(x.shape)}")
    if x.dtype.kind not in "fc":
        raise TypeError(f"{name} takes floating-point numbers, got {x.dtype}{shown(x.shape)}; convert(x, 'float64') makes them")
    return x.shape


def as_square(name, x):
    m, n = as_matrix(name, x)
    if not same(m, n):
        raise ValueError(f"{name} takes a square matrix, got {shown(x.shape)}")
    return m


def real_dtype(dtype):
    return np.empty(0, dtype).real.dtype


def check_finite(name, a):
    if not np.isfinite(a).all():
        raise FloatingPointError(f"{name} got a matrix {list(a.shape)} with NaN or infinity among its entries at run time")


def adjoint(x):
    """The conjugate transpose of a matrix.

    >>> traced.adjoint(traced.eager([[1 + 2j, 3]])).value.tolist()
    [[(1-2j)], [(3-0j)]]
    """
    return conj(transpose(x))


def scaled_rows(s, x):
    return reshape(s, (s.shape[0], 1)) * x


def hermitian(x):
    return (x + adjoint(x)) / 2.0


def antihermitian(x):
    return (x - adjoint(x)) / 2.0


def plus(*terms):
    """The sum of the terms that are not None."""
    terms = [t for t in terms if t is not None]
    return sum(terms[1:], terms[0]) if terms else None


def _solve_infer(a, b):
    n = as_square("solve", a)
    if b.ndim != 2 or not same(n, b.shape[0]):
        raise ValueError(f"solve takes a (n, n) and b (n, m), got {a.dtype}{shown(a.shape)} and {b.dtype}{shown(b.shape)}")
    return [(b.shape, b.dtype)]


def _solve_vjp(node, ct, i):
    a, x = node.inputs[0], node.outputs[0]
    gb = solve(transpose(a), ct)
    return gb if i else -matmul(gb, transpose(x))


def _solve_jvp(node, tangents):
    da, db = tangents
    return solve(node.inputs[0], plus(db, None if da is None else -(da @ node.outputs[0])))


SOLVE = Op("solve", _solve_infer, np.linalg.solve, vjp=_solve_vjp, jvp=_solve_jvp)


def solve(a, b):
    """The matrix x with a @ x = b, for a square a.

    >>> x = traced.solve(traced.eager(2.0 * np.eye(2)), np.ones((2, 1)))
    >>> bool(np.allclose(x, 0.5))
    True
    """
    return apply(SOLVE, *to_common_dtype(a, b))

"""Placeholders, and the operators and methods of tensors."""

import numpy as np

from trgnb.traced import contract, elementwise, shapes
from trgnb.traced.dynamic import dynamic_truncate
from trgnb.traced.eigh import eigh
from trgnb.traced.extents import known
from trgnb.traced.graph import DTYPES, PLACEHOLDER, Tensor, apply, record
from trgnb.traced.qr import qr
from trgnb.traced.svd import svd, svd_full


def placeholder(shape, dtype="float64", name=None):
    """A tensor whose value a program is given.

    shape: extents, one or a sequence: numbers, names of symbols such as "n", or extents of another tensor.
    dtype: bool, int64, float32, float64, complex64 or complex128.  name: for flowcharts.

    >>> traced.placeholder((2, "n")).shape
    (Const(2), Sym(n))
    """
    if np.dtype(dtype) not in DTYPES:
        raise TypeError(f"placeholder has the dtypes {', '.join(map(str, DTYPES))}, got {dtype!r}")
    params = {"shape": shapes.as_shape(shape), "dtype": np.dtype(dtype), "name": name}
    return record(PLACEHOLDER, (), params, object())[0]  # a key that no other has: every placeholder is its own


def _compare(direction):
    return lambda x, y: elementwise.compare(x, y, direction)


def _iterate(x):
    if not x.ndim or known(x.shape[0]) is None:
        raise TypeError(f"{x!r} is not a sequence: only a tensor whose first extent is known can be iterated over")
    return (x[i] for i in range(known(x.shape[0])))


def _shape_argument(arguments):
    """What reshape(4, 4) and reshape((4, 4)) mean."""
    return arguments[0] if len(arguments) == 1 and hasattr(arguments[0], "__iter__") else arguments


def _slice(x, starts, limits, strides=None):
    """x[start:limit:stride, ...] with one start, limit and stride for each axis, 0 <= start <= limit <= extent."""
    strides = [1] * x.ndim if strides is None else strides
    if not len(starts) == len(limits) == len(strides) == x.ndim:
        raise ValueError(f"slice wants a start, limit and stride for each of {x.ndim} axes, got {starts}, {limits}, {strides}")
    starts, limits, strides = (tuple(map(int, b)) for b in (starts, limits, strides))
    return apply(shapes.SLICE, x, starts=starts, limits=limits, strides=strides)


_METHODS = {
    "__add__": elementwise.add,
    "__radd__": elementwise.add,
    "__sub__": elementwise.sub,
    "__rsub__": lambda x, y: elementwise.sub(y, x),
    "__mul__": elementwise.mul,
    "__rmul__": elementwise.mul,
    "__truediv__": elementwise.div,
    "__rtruediv__": lambda x, y: elementwise.div(y, x),
    "__matmul__": contract.matmul,
    "__rmatmul__": lambda x, y: contract.matmul(y, x),
    "__neg__": elementwise.neg,
    "__abs__": elementwise.absolute,
    "__lt__": _compare("<"),
    "__le__": _compare("<="),
    "__gt__": _compare(">"),
    "__ge__": _compare(">="),
    "__eq__": _compare("=="),
    "__ne__": _compare("!="),
    "__hash__": lambda x: hash(x.key),
    "__getitem__": shapes.getitem,
    "__iter__": _iterate,
    "T": property(shapes.transpose),
    "reshape": lambda x, *shape: shapes.reshape(x, _shape_argument(shape)),
    "transpose": lambda x, *axes: shapes.transpose(x, _shape_argument(axes) if axes else None),
    "sum": shapes.total,
    "sqrt": elementwise.sqrt,
    "log": elementwise.log,
    "exp": elementwise.exp,
    "conj": elementwise.conj,
    "convert": elementwise.convert,
    "slice": _slice,
    "slice_axis": shapes.slice_axis,
    "pad": shapes.pad,
    "take": shapes.take,
    "scatter": shapes.scatter,
    "dynamic_truncate": dynamic_truncate,
    "svd": svd,
    "svd_full": svd_full,
    "qr": qr,
    "eigh": eigh,
}
for _name, _function in _METHODS.items():
    setattr(Tensor, _name, _function)
# the real part, as NumPy spells it
Tensor.real = property(elementwise.real)

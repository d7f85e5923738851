"""Ops that move entries: reshape, transpose, broadcast, sum, slice, pad, take and scatter."""

from math import prod

import numpy as np

from trgnb.traced.dynamic import dynamic_truncate
from trgnb.traced.extents import Const, UpperBound, as_axis, extent, known, same, shown
from trgnb.traced.graph import DerivativeError, Op, apply

# --- reshape, transpose, broadcast, sum --------------------------------------------------------------------


def _reshape_infer(x, shape):
    old, new = [tuple(map(known, s)) for s in (x.shape, shape)]
    if None not in old + new and prod(old) != prod(new):
        raise ValueError(f"reshape cannot make {shown(shape)} of {shown(x.shape)}: {prod(old)} entries are not {prod(new)}")
    return [(shape, x.dtype)]


RESHAPE = Op(
    "reshape", _reshape_infer, lambda x, shape: np.reshape(x, shape),
    vjp=lambda node, ct, i: reshape(ct, node.inputs[0].shape), multilinear=True,
)  # fmt: skip

TRANSPOSE = Op(
    "transpose", lambda x, axes: [(tuple(x.shape[a] for a in axes), x.dtype)], lambda x, axes: np.transpose(x, axes),
    vjp=lambda node, ct, i: transpose(ct, np.argsort(node.params["axes"])), multilinear=True,
)  # fmt: skip


def _broadcast_infer(x, shape):
    if x.ndim > len(shape) or not all(known(a) == 1 or same(a, b) for a, b in zip(x.shape[::-1], shape[::-1], strict=False)):
        raise ValueError(f"broadcast cannot make {shown(shape)} of {shown(x.shape)}: extents, from the last, must be equal or 1")
    return [(shape, x.dtype)]


def _broadcast_vjp(node, ct, i):
    x, shape = node.inputs[0], node.params["shape"]
    new = len(shape) - x.ndim
    widened = [a for a in range(new, len(shape)) if known(x.shape[a - new]) == 1 and known(shape[a]) != 1]
    return reshape(total(ct, (*range(new), *widened)), x.shape)


BROADCAST = Op(
    "broadcast", _broadcast_infer, lambda x, shape: np.broadcast_to(x, shape), vjp=_broadcast_vjp, multilinear=True
)  # fmt: skip


def _sum_infer(x, axes):
    dtype = np.dtype(np.int64) if x.dtype == bool else x.dtype
    return [(tuple(e for a, e in enumerate(x.shape) if a not in axes), dtype)]


def _sum_vjp(node, ct, i):
    x, axes = node.inputs[0], node.params["axes"]
    return broadcast_to(reshape(ct, tuple(1 if a in axes else e for a, e in enumerate(x.shape))), x.shape)


SUM = Op(
    "sum", _sum_infer, lambda x, axes: np.sum(x, axis=axes), vjp=_sum_vjp, multilinear=True
)  # fmt: skip


# --- slice and pad -----------------------------------------------------------------------------------------


def _slice_infer(x, starts, limits, strides):
    shape = []
    for axis, (e, start, limit, stride) in enumerate(zip(x.shape, starts, limits, strides, strict=True)):
        if limit is None:  # the whole axis, whatever its extent
            shape.append(e)
        elif 0 <= start <= limit and stride >= 1 and (known(e) is None or limit <= known(e)):
            shape.append(Const(-(-(limit - start) // stride)))
        else:
            raise ValueError(
                f"slice [{start}:{limit}:{stride}] does not fit axis {axis} of {shown(x.shape)}: it needs "
                "0 <= start <= limit <= extent and stride >= 1"
            )
    return [(tuple(shape), x.dtype)]


def _slice_kernel(x, starts, limits, strides):
    index = []
    for axis, (start, limit, stride) in enumerate(zip(starts, limits, strides, strict=True)):
        if limit is not None and limit > x.shape[axis]:
            raise ValueError(f"slice: limit {limit} of axis {axis} is beyond the {x.shape[axis]} entries there at run time")
        index.append(slice(start, limit, stride))
    return x[tuple(index)]


def _slice_vjp(node, ct, i):
    x, starts, limits, strides = node.inputs[0], *node.params.values()
    bounds = [e.bound if isinstance(e, UpperBound) else e for e in x.shape]
    if not all(isinstance(e, Const) for e in bounds):
        raise DerivativeError(
            "vjp of slice: slice input requires constant exact or upper-bound extents, got "
            f"{shown(x.shape)}; reshape to constant extents before the slice, multiply by a mask, use take, or record "
            "the graph under traced.fold_extents()"
        )
    low, high, between = [], [], []
    for e, start, limit, stride in zip(bounds, starts, limits, strides, strict=True):
        length = 0 if limit is None else -(-(limit - start) // stride)
        low.append(0 if limit is None else start)
        high.append(0 if limit is None else e - start - max((length - 1) * stride + 1, 0))
        between.append(stride - 1)
    ct = pad(ct, low, high, between)
    for axis, (e, limit) in enumerate(zip(x.shape, limits, strict=True)):
        if isinstance(e, UpperBound) and limit is not None:  # padded to the bound, and there are only that many entries
            ct = dynamic_truncate(ct, e.length, axis)
    return ct


SLICE = Op("slice", _slice_infer, _slice_kernel, vjp=_slice_vjp, multilinear=True)


def _pad_infer(x, low, high, between):
    shape = []
    for axis, (e, a, b, c) in enumerate(zip(x.shape, low, high, between, strict=True)):
        if min(a, b, c) < 0:
            raise ValueError(f"pad takes amounts >= 0, got {a}, {b}, {c} for axis {axis}")
        if a == b == c == 0:
            shape.append(e)
        elif known(e) is None:
            raise ValueError(f"pad needs a known extent along axis {axis}, got {shown(x.shape)}")
        else:
            shape.append(Const(a + b + known(e) + c * max(known(e) - 1, 0)))
    return [(tuple(shape), x.dtype)]


def _pad_kernel(x, low, high, between):
    sizes = [a + b + n + c * max(n - 1, 0) for n, a, b, c in zip(x.shape, low, high, between, strict=True)]
    padded = np.zeros(sizes, x.dtype)
    inner = (slice(a, s - b, c + 1) for a, b, c, s in zip(low, high, between, sizes, strict=True))
    padded[tuple(inner)] = x
    return padded


def _pad_vjp(node, ct, i):
    low, high, between = node.params.values()
    amounts = zip(node.outputs[0].shape, low, high, between, strict=True)
    limits = [None if a == b == c == 0 else e - b for e, a, b, c in amounts]
    return apply(SLICE, ct, starts=low, limits=tuple(limits), strides=tuple(c + 1 for c in between))


PAD = Op("pad", _pad_infer, _pad_kernel, vjp=_pad_vjp, multilinear=True)


# --- take and scatter --------------------------------------------------------------------------------------


def _valid(indices, e):
    return all(0 <= i and (known(e) is None or i < known(e)) for i in indices)


def _take_infer(x, indices, axis):
    if not _valid(indices, x.shape[axis]):
        raise ValueError(f"take got indices {list(indices)} for axis {axis} of {shown(x.shape)}: allowed is 0 <= index < extent")
    return [((*x.shape[:axis], Const(len(indices)), *x.shape[axis + 1 :]), x.dtype)]


TAKE = Op(
    "take", _take_infer, lambda x, indices, axis: np.take(x, np.array(indices, dtype=int), axis=axis),
    vjp=lambda node, ct, i: scatter(ct, length=node.inputs[0].shape[node.params["axis"]], **node.params),
    multilinear=True,
)  # fmt: skip


def _scatter_infer(x, indices, axis, length):
    if known(x.shape[axis]) != len(indices):
        raise ValueError(f"scatter got {len(indices)} indices for axis {axis} of {shown(x.shape)}: one for each entry is wanted")
    if not _valid(indices, length):
        raise ValueError(f"scatter got indices {list(indices)} for a length of {length!r}: allowed is 0 <= index < length")
    return [((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)]


def _scatter_kernel(x, indices, axis, length):
    out = np.zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)
    np.add.at(out, (slice(None),) * axis + (np.array(indices, dtype=int),), x)
    return out


SCATTER = Op(
    "scatter", _scatter_infer, _scatter_kernel,
    vjp=lambda node, ct, i: take(ct, node.params["indices"], node.params["axis"]), multilinear=True,
)  # fmt: skip


# --- functions ---------------------------------------------------------------------------------------------


def as_shape(shape):
    """Extents from what reshape and placeholder accept: one length or a sequence of them."""
    if isinstance(shape, str) or not hasattr(shape, "__iter__"):
        shape = (shape,)
    return tuple(map(extent, shape))


def reshape(x, shape):
    """The entries of x, in row-major order, in another shape; one extent may be -1 if the others are known.

    >>> traced.reshape(traced.eager([1.0, 2.0]), (2, -1)).value.tolist()
    [[1.0], [2.0]]
    """
    shape = list(shape) if hasattr(shape, "__iter__") else [shape]
    if -1 in [e for e in shape if isinstance(e, int)]:
        rest = [known(extent(e)) for e in shape if not (isinstance(e, int) and e == -1)]
        size = x.concrete_shape
        if len(rest) != len(shape) - 1 or None in rest or size is None or not prod(rest) or prod(size) % prod(rest):
            raise ValueError(f"reshape cannot find the -1 in {shape} for {shown(x.shape)}: give every extent")
        shape[shape.index(-1)] = prod(size) // prod(rest)
    shape = as_shape(shape)
    # By type too: Min(4, 4) to 4 is a change of what is known, and has to be recorded.
    return x if shape == x.shape else apply(RESHAPE, x, shape=shape)


def transpose(x, axes=None):
    """The axes of x in another order, reversed by default.

    >>> traced.transpose(traced.eager([[1.0, 2.0]])).value.tolist()
    [[1.0], [2.0]]
    """
    axes = tuple(range(x.ndim))[::-1] if axes is None else tuple(as_axis("transpose", x, a) for a in axes)
    if sorted(axes) != list(range(x.ndim)):
        raise ValueError(f"transpose got axes {axes} for {shown(x.shape)}: each axis is wanted once")
    return x if axes == tuple(range(x.ndim)) else apply(TRANSPOSE, x, axes=axes)


def broadcast_to(x, shape):
    """x repeated along new axes in front and along axes of extent 1.

    >>> traced.broadcast_to(traced.eager([1.0, 2.0]), (2, 2)).value.tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    shape = as_shape(shape)
    equal = len(shape) == x.ndim and all(same(a, b) for a, b in zip(x.shape, shape, strict=True))
    return x if equal else apply(BROADCAST, x, shape=shape)


def total(x, axis=None):
    """Sum over one axis, several, or all.

    >>> traced.sum(traced.eager([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Eager(float64[2], [4. 6.])
    """
    if axis is None:
        axis = range(x.ndim)
    axes = tuple(sorted(as_axis("sum", x, a) for a in ((axis,) if isinstance(axis, int | np.integer) else axis)))
    if len(set(axes)) < len(axes):
        raise ValueError(f"sum got the axes {axes}: each may be given once")
    return apply(SUM, x, axes=axes) if axes else x


def slice_axis(x, axis, start, limit, stride=1):
    """x[..., start:limit:stride, ...] along one axis, with 0 <= start <= limit.

    >>> traced.slice_axis(traced.eager([1.0, 2.0, 3.0]), axis=0, start=1, limit=3)
    Eager(float64[2], [2. 3.])
    """
    axis = as_axis("slice_axis", x, axis)
    starts, limits, strides = [0] * x.ndim, [None] * x.ndim, [1] * x.ndim
    starts[axis], limits[axis], strides[axis] = int(start), int(limit), int(stride)
    return apply(SLICE, x, starts=tuple(starts), limits=tuple(limits), strides=tuple(strides))


def getitem(x, index):
    """x[index] for slices with stride >= 1, whole numbers, None and ...; a list of numbers is a ``take``."""
    index = _spelt_out(x, index if isinstance(index, tuple) else (index,))
    ranges, takes, kept = [], [], []
    for i in index:
        axis = len(ranges)
        match i:
            case None:
                kept.append(None)
                continue
            case slice():
                ranges.append(_bounds(x, i, axis))
            case list() | np.ndarray():
                takes.append((axis, i))
                ranges.append((0, None, 1))
            case int() | np.integer() if not isinstance(i, bool):
                n = known(x.shape[axis])
                if i < 0 if n is None else not -n <= i < n:
                    raise IndexError(f"index {i} is out of range for axis {axis} of {shown(x.shape)}")
                i = i + n if i < 0 else i
                ranges.append((int(i), int(i) + 1, 1))
                continue
            case _:
                raise TypeError(
                    f"the index {i!r} is not a number, slice, list, None or ...: what is not known while the graph is "
                    "recorded needs dynamic_truncate or a mask"
                )
        kept.append(axis)
    if takes and (len(takes) > 1 or len(ranges) - len(takes) > sum(isinstance(i, slice) for i in index)):
        raise TypeError(f"the index {index!r} has a list beside another list or a number: index in two steps, or use take")
    starts, limits, strides = zip(*ranges, strict=True) if ranges else ((), (), ())
    if any(limit is not None for limit in limits):
        x = apply(SLICE, x, starts=starts, limits=limits, strides=strides)
    for axis, indices in takes:
        x = take(x, indices, axis)
    return x if kept == list(range(x.ndim)) else reshape(x, [1 if a is None else x.shape[a] for a in kept])


def _spelt_out(x, index):
    """An index with one entry for each axis: the ellipsis replaced, or put at the end."""
    places = [n for n, i in enumerate(index) if i is Ellipsis]
    missing = x.ndim - sum(i is not None and i is not Ellipsis for i in index)
    if missing < 0 or len(places) > 1:
        raise IndexError(f"the index {index!r} has too many entries for {shown(x.shape)}")
    at = places[0] if places else len(index)
    return (*index[:at], *[slice(None)] * missing, *index[at + 1 :])


def _bounds(x, s, axis):
    """start, limit and stride of a slice, NumPy's negative and missing ends resolved."""
    if s == slice(None):
        return 0, None, 1
    n = known(x.shape[axis])
    stride = 1 if s.step is None else int(s.step)
    if stride < 1:
        raise ValueError(f"a slice needs a stride >= 1, got {stride}; take(indices) reverses")
    if n is not None:
        start, limit, _ = s.indices(n)
        return start, max(start, limit), stride
    start = 0 if s.start is None else int(s.start)
    if s.stop is None or start < 0 or int(s.stop) < start:
        raise ValueError(f"a slice of axis {axis} of {shown(x.shape)}, whose extent is not known, needs 0 <= start <= stop")
    return start, int(s.stop), stride


def pad(x, low, high, between=None):
    """Zeros around x, low before and high after each axis, and between neighbours; amounts per axis, >= 0.

    >>> traced.pad(traced.eager([1.0, 2.0]), low=[0], high=[1], between=[1])
    Eager(float64[4], [1. 0. 2. 0.])
    """
    between = [0] * x.ndim if between is None else between
    amounts = [tuple(map(int, a)) for a in (low, high, between)]
    if any(len(a) != x.ndim for a in amounts):
        raise ValueError(f"pad wants one amount for each axis of {shown(x.shape)}, got {amounts}")
    if not any(map(any, amounts)):
        return x
    return apply(PAD, x, low=amounts[0], high=amounts[1], between=amounts[2])


def _indices(x, indices, axis):
    array = np.asarray(indices)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"indices must be a sequence of whole numbers, got {indices!r}")
    n = known(x.shape[axis])
    return tuple(int(i) + n if i < 0 and n is not None else int(i) for i in array)


def take(x, indices, axis):
    """The entries of x at the indices along an axis; an index that does not exist is an error.

    >>> traced.take(traced.eager([1.0, 2.0, 3.0]), [2, 0], axis=0)
    Eager(float64[2], [3. 1.])
    """
    axis = as_axis("take", x, axis)
    return apply(TAKE, x, indices=_indices(x, indices, axis), axis=axis)


def scatter(x, indices, axis, length):
    """Zeros of the given length along an axis, with the entries of x added at the indices: the transpose of take.

    >>> traced.scatter(traced.eager([3.0, 1.0]), [2, 0], axis=0, length=3)
    Eager(float64[3], [1. 0. 3.])
    """
    axis = as_axis("scatter", x, axis)
    return apply(SCATTER, x, indices=tuple(map(int, indices)), axis=axis, length=extent(length))

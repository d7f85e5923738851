"""Truncation to a length that is computed at run time, and its transpose."""

import numpy as np

from trgnb.traced.extents import UpperBound, as_axis, shown
from trgnb.traced.graph import DerivativeError, Op, apply
from trgnb.traced.settings import pad_truncated


def _truncate_infer(x, k, axis):
    if k.ndim or k.dtype != np.int64:
        raise TypeError(f"dynamic_truncate takes k as a scalar of int64, got {k.dtype}{shown(k.shape)}")
    e = x.shape[axis]
    e = e.bound if isinstance(e, UpperBound) else e
    return [((*x.shape[:axis], UpperBound(e, k), *x.shape[axis + 1 :]), x.dtype)]


def _truncate_kernel(x, k, axis):
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"dynamic_truncate got k = {k} at run time: axis {axis} has {x.shape[axis]} entries, so 0 <= k <= that")
    return x[(slice(None),) * axis + (slice(int(k)),)]


def _truncate_vjp(node, ct, i):
    x, k = node.inputs
    if x.ndim > 1 and not pad_truncated.on:
        raise DerivativeError(
            f"vjp of dynamic_truncate: the cotangent of a truncated tensor with {x.ndim} axes has a length along axis "
            f"{node.params['axis']} that is computed at run time, and cannot be reshaped to {shown(x.shape)}; multiply by a "
            "mask instead of truncating, or differentiate under traced.pad_truncated()"
        )
    return apply(EXTEND, ct, k, axis=node.params["axis"], length=x.shape[node.params["axis"]])


TRUNCATE = Op("dynamic_truncate", _truncate_infer, _truncate_kernel, vjp=_truncate_vjp, multilinear=True)


def _extend_kernel(x, k, axis, length):
    amounts = [(0, 0)] * x.ndim
    amounts[axis] = (0, length - x.shape[axis])
    return np.pad(x, amounts)


# The transpose of dynamic_truncate: zeros up to the length that was there before.
EXTEND = Op(
    "extend", lambda x, k, axis, length: [((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)], _extend_kernel,
    vjp=lambda node, ct, i: dynamic_truncate(ct, node.inputs[1], node.params["axis"]), multilinear=True,
)  # fmt: skip


def dynamic_truncate(x, k, axis):
    """The first k entries of x along an axis, k being a scalar int64 tensor: its length is known when it runs.

    >>> s = traced.eager([3.0, 2.0, 1.0])
    >>> traced.dynamic_truncate(s, (s > 1.5).sum(), axis=0).value.tolist()
    [3.0, 2.0]
    """
    axis = as_axis("dynamic_truncate", x, axis)
    return apply(TRUNCATE, x, k, axis=axis)

"""Tensors one after the other along an axis."""

import numpy as np

from trgnb.traced.elementwise import to_common_dtype
from trgnb.traced.extents import Const, as_axis, known, same, shown
from trgnb.traced.graph import Op, apply
from trgnb.traced.matrices import plus
from trgnb.traced.shapes import pad, slice_axis


def _infer(*tensors, axis):
    shapes = [x.shape for x in tensors]
    rest = [shape[:axis] + shape[axis + 1 :] for shape in shapes]
    if any(len(r) != len(rest[0]) or not all(map(same, r, rest[0])) for r in rest):
        raise ValueError(f"concatenate along axis {axis} takes tensors that agree in the others, got {', '.join(map(shown, shapes))}")
    if any(known(shape[axis]) is None for shape in shapes):
        raise ValueError(f"concatenate needs known extents along axis {axis}, got {', '.join(map(shown, shapes))}")
    length = Const(sum(known(shape[axis]) for shape in shapes))
    return [((*shapes[0][:axis], length, *shapes[0][axis + 1 :]), tensors[0].dtype)]


def _starts(node):
    """Where each input begins."""
    axis = node.params["axis"]
    return np.cumsum([0, *(known(x.shape[axis]) for x in node.inputs)]).tolist()


def _vjp(node, ct, i):
    return slice_axis(ct, node.params["axis"], *_starts(node)[i : i + 2])


def _jvp(node, tangents):
    axis, starts = node.params["axis"], _starts(node)
    padded = []
    for dx, low, high in zip(tangents, starts, starts[1:], strict=False):
        if dx is not None:
            before, after = ([n if a == axis else 0 for a in range(dx.ndim)] for n in (low, starts[-1] - high))
            padded.append(pad(dx, before, after))
    return plus(*padded)


CONCATENATE = Op("concatenate", _infer, lambda *tensors, axis: np.concatenate(tensors, axis), vjp=_vjp, jvp=_jvp)


def concatenate(tensors, axis=0):
    """Tensors one after the other along an axis, of one dtype afterwards.

    Errors: ValueError for none at all, for other extents that differ, or for an extent along the axis that is not known.

    >>> traced.concatenate([traced.eager([1.0]), traced.eager([2.0, 3.0])])
    Eager(float64[3], [1. 2. 3.])
    """
    tensors = to_common_dtype(*tensors) if len(tensors) else ()
    if not tensors:
        raise ValueError("concatenate takes at least one tensor, got none")
    return apply(CONCATENATE, *tensors, axis=as_axis("concatenate", tensors[0], axis))

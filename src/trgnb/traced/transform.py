"""Derivatives of graphs: graphs again.

Reverse mode walks the nodes between x and y once, from the last to the first.  Every use of a tensor has
added its share to the cotangent before the node that made the tensor is reached, so a node is visited once however
many paths lead through it, and the work is proportional to the size of the graph.
"""

import numpy as np

from trgnb.traced.extents import same, shown
from trgnb.traced.graph import Traced, ancestors, as_array
from trgnb.traced.shapes import broadcast_to


def active_nodes(outputs, inputs):
    """The nodes between inputs and outputs that carry derivatives, each after those that it depends on."""
    active, keys = [], {x.key for x in inputs}
    for node in ancestors(outputs, stop=inputs):
        if node.op.differentiable and any(x.key in keys for x in node.inputs):
            active.append(node)
            keys.update(y.key for y in node.outputs if y.dtype.kind in "fc")
    return active, keys


def only(cotangents):
    """What a vjp rule takes for its cts: the tensor of a single output, the list of several."""
    return cotangents[0] if len(cotangents) == 1 else cotangents


def vjp(outputs, inputs, cotangents):
    """The cotangents of the inputs for given cotangents of the outputs, as a list.

    outputs, inputs: lists of tensors, inputs being any of the graph, taken as independent of each other.
    cotangents: one for each output, of its shape and dtype.  An input that the outputs do not depend on has zeros.

    >>> x, y = traced.placeholder((2,)), traced.placeholder(())
    >>> dx, dy = traced.vjp([x * y], [x, y], [[1.0, 10.0]])
    >>> program = traced.compile([dx, dy], [x, y])
    >>> [array.tolist() for array in program([3.0, 5.0], 2.0)]
    [[2.0, 20.0], 53.0]
    """
    outputs, inputs, cotangents = listed(outputs), listed(inputs), listed(cotangents)
    check_floats("vjp", [*outputs, *inputs])
    _check_lengths("vjp", "cotangent", outputs, cotangents)
    nodes, active = active_nodes(outputs, inputs)
    cts = {}

    def collect(x, ct):
        if x.key in active and ct is not None:
            cts[x.key] = cts[x.key] + ct if x.key in cts else ct

    for y, ct in zip(outputs, cotangents, strict=True):
        collect(y, _like(y, ct))
    given = {x.key for x in inputs}
    for node in reversed(nodes):
        # what is given is independent: its cotangent stays, also where another output of its node goes further back
        incoming = [None if y.key in given else cts.pop(y.key, None) for y in node.outputs]
        if any(ct is not None for ct in incoming):
            for i, x in enumerate(node.inputs):
                if x.key in active:
                    collect(x, node.op.vjp(node, only(incoming), i))
    return [cts[x.key] if x.key in cts else zeros_like(x) for x in inputs]


def zeros_like(x):
    """Zeros of the shape and dtype of x."""
    return broadcast_to(Traced.constant(np.zeros((), x.dtype)), x.shape)


def _like(x, value):
    """A value as a tensor of the shape and dtype of x, or an error."""
    if not isinstance(value, Traced):
        array = as_array(value)
        value = Traced.constant(array.astype(x.dtype) if np.can_cast(array.dtype, x.dtype, "same_kind") else array)
    if value.dtype != x.dtype or value.ndim != x.ndim or not all(map(same, value.shape, x.shape)):
        raise ValueError(f"the tangent or cotangent of {x!r} must have its shape and dtype, got {value.dtype}{shown(value.shape)}")
    return value


def listed(value):
    """A tensor, or a list of them, as a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


def check_floats(name, tensors):
    for x in tensors:
        if not isinstance(x, Traced):
            raise TypeError(f"{name} takes traced tensors, got {type(x).__name__}; eager tensors have backward()")
        if x.dtype.kind not in "fc":
            raise TypeError(f"{name} takes floating-point tensors, got {x!r}")


def check_scalar(name, y, xs):
    check_floats(name, [y, *xs])
    if y.ndim or y.dtype.kind != "f":
        raise ValueError(f"{name} takes a real scalar y, got {y.dtype}{shown(y.shape)}; sum it, or take real(y)")


def _check_lengths(name, what, tensors, given):
    if len(tensors) != len(given):
        raise ValueError(f"{name} takes a {what} for each of {len(tensors)} tensors, got {len(given)}")


def grad(y, x):
    """The gradient of the scalar y with respect to x, a tensor or a list of tensors, as a graph.

    y: real scalar.  x: any tensors of the graph of y.  Returns a tensor of the shape and dtype of x, or a list.
    For complex x it is JAX's: dy = Re sum(grad * dx).  A gradient may be differentiated again.
    Errors: ValueError for a y that is not a real scalar; DerivativeError where an op has no derivative.

    >>> x = traced.placeholder((3,))
    >>> program = traced.compile([traced.grad((x * x).sum(), x)], [x])
    >>> program([1.0, 2.0, 3.0])[0].tolist()
    [2.0, 4.0, 6.0]
    """
    xs = listed(x)
    check_scalar("grad", y, xs)
    gradients = vjp([y], xs, [np.ones((), y.dtype)])
    return gradients if isinstance(x, list | tuple) else gradients[0]


def jvp(y, x, dx):
    """The derivative of y along the direction dx of x, as a graph.

    y, x: tensors or lists of tensors.  dx: of the shape and dtype of x, a tensor or an array.

    >>> x = traced.placeholder((2,))
    >>> dy = traced.jvp(x * x, x, [1.0, 0.0])
    >>> traced.compile([dy], [x])([3.0, 5.0])[0].tolist()
    [6.0, 0.0]
    """
    ys, xs, dxs = listed(y), listed(x), dx if isinstance(x, list | tuple) else [dx]
    check_floats("jvp", [*ys, *xs])
    _check_lengths("jvp", "tangent", xs, dxs)
    tangents = {x.key: _like(x, dx) for x, dx in zip(xs, dxs, strict=True)}
    nodes, active = active_nodes(ys, xs)
    for node in nodes:
        incoming = [tangents.get(x.key) for x in node.inputs]
        if any(t is not None for t in incoming):
            outgoing = node.op.jvp(node, incoming)
            for x, t in zip(node.outputs, [outgoing] if len(node.outputs) == 1 else outgoing, strict=True):
                if x.key in active:  # integers made of floats carry none
                    tangents.setdefault(x.key, t)
    along = [tangents[y.key] if y.key in tangents else zeros_like(y) for y in ys]
    return along if isinstance(y, list | tuple) else along[0]

"""Ops, nodes and tensors: the graph, recorded as it is written down.

A node is an op applied to tensors.  Nodes are hash-consed: applying the same op to the same tensors returns
the node that is there, so equal work is one node however often it is written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np

from trgnb.traced.extents import Const, UpperBound, extents_in, known, shown

DTYPES = tuple(map(np.dtype, ("bool", "int64", "float32", "float64", "complex64", "complex128")))


class DerivativeError(NotImplementedError):
    """An op has no derivative, or none for what the graph knows of its extents.

    >>> x = traced.placeholder((2, 2))
    >>> traced.grad(x.svd_full()[1].sum(), x)
    Traceback (most recent call last):
        ...
    trgnb.traced.graph.DerivativeError: unsupported vjp AD rule for svd_full: ...
    """


def _no_rule(kind):
    def rule(node, *_):
        raise DerivativeError(f"unsupported {kind} AD rule for {node.op.name}{node.op.no_rule}")

    return rule


@dataclass(frozen=True, eq=False)
class Op:
    """A primitive operation with its rules.

    infer(*inputs, **params) -> [(shape, dtype), ...] of the outputs, or an error that says what is allowed.
    kernel(*arrays, **params) -> array, or a tuple of arrays, on NumPy.
    vjp(node, ct, i) -> cotangent of input i; ct: of the output (a list for several outputs, None where zero).
    jvp(node, tangents) -> tangent of the output (a list for several); tangents: of the inputs, None where zero.
    multilinear: linear in each differentiable input, which is all that the default jvp needs to know.
    differentiable: False where the output is integer or bool and no cotangent can reach it.
    no_rule: what to use instead, for the error where there is no rule.
    """

    name: str
    infer: Callable
    kernel: Callable
    vjp: Callable = _no_rule("vjp")
    jvp: Callable = _no_rule("jvp")
    multilinear: bool = False
    differentiable: bool = True
    no_rule: str = ""

    def __post_init__(self):
        if self.multilinear:
            object.__setattr__(self, "jvp", _multilinear_jvp)


def _multilinear_jvp(node, tangents):
    total = None
    for i, dx in enumerate(tangents):
        if dx is not None:
            term = apply(node.op, *node.inputs[:i], dx, *node.inputs[i + 1 :], **node.params)
            total = term if total is None else total + term
    return total


class Tensor:
    """What traced and eager tensors have in common; ``trgnb.traced.tensor`` adds the operators and methods.

    shape: tuple of extents.  dtype: of NumPy.
    Operators: ``+ - * / @``, comparisons, ``abs``, and ``[]`` with slices, numbers, None, ... and lists of numbers.
    Methods: ``reshape(*shape)``, ``transpose(*axes)``, ``T``, ``sum(axis)``, ``sqrt()``, ``log()``, ``exp()``, ``conj()``,
    ``real``, ``convert(dtype)``, ``slice(starts, limits, strides)``, ``slice_axis``, ``pad``, ``take``, ``scatter``,
    ``dynamic_truncate``, ``svd``, ``svd_full``, ``qr`` and ``eigh``, as the functions of these names.

    >>> x = traced.placeholder((2, 3))
    >>> y = (2.0 * x[:, :2] + 1.0).log().sum(axis=0)
    >>> y.shape, y.concrete_shape
    ((Const(2),), (2,))
    """

    __slots__ = ("__weakref__", "dtype", "key", "shape")
    # NumPy arrays leave mixed arithmetic to the tensor.
    __array_ufunc__ = None

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def concrete_shape(self):
        """The shape as a tuple of ints; None where an extent is not known."""
        sizes = tuple(map(known, self.shape))
        return None if None in sizes else sizes


class Traced(Tensor):
    """A tensor of the graph: output ``index`` of a node.  shape: tuple of extents.  It has no value."""

    __slots__ = ("index", "node")

    def __init__(self, node, index, shape, dtype):
        self.node, self.index, self.shape, self.dtype = node, index, tuple(shape), np.dtype(dtype)
        self.key = (node.id, index)

    def __repr__(self):
        return f"Traced({self.dtype}{shown(self.shape)}, {self.node.op.name})"

    def __bool__(self):
        raise TypeError("a traced tensor has no value while the graph is recorded: use where(condition, a, b) instead of if")

    def __array__(self, *_, **__):
        raise TypeError("a traced tensor has no value while the graph is recorded: compile a program and call it with arrays")

    __float__ = __int__ = __index__ = __array__

    @staticmethod
    def constant(array):
        """The tensor of a NumPy array, a constant of the graph."""
        key = (array.dtype.str, array.shape, array.tobytes())
        return record(CONSTANT, (), {"array": array}, key)[0]

    @staticmethod
    def bind(op, inputs, params):
        """The outputs of an op, recorded."""
        return record(op, inputs, params, tuple(params.items()))


class Node:
    """An op applied to inputs.  lengths: the tensors that hold the computed extents among its parameters."""

    __slots__ = ("__weakref__", "id", "inputs", "lengths", "op", "outputs", "params")

    @property
    def dependencies(self):
        """The tensors that must be computed before."""
        return (*self.inputs, *self.lengths)


# Weak: the table must not keep graphs alive that nobody holds.  An id is never given twice.
_table, _ids, _lock = WeakValueDictionary(), count(), Lock()


def record(op, inputs, params, key):
    shapes = op.infer(*inputs, **params)
    key = (op.name, tuple(x.key for x in inputs), key, tuple(shapes))
    with _lock:
        node = _table.get(key)
        if node is None:
            node = Node()
            node.id, node.op, node.inputs, node.params = next(_ids), op, inputs, params
            node.lengths = computed_lengths(params)
            node.outputs = tuple(Traced(node, i, *s) for i, s in enumerate(shapes))
            _table[key] = node
    return node.outputs


def computed_lengths(params):
    """The tensors that hold the computed extents among the parameters of an op, each once."""
    extents = [e for value in params.values() for e in extents_in(value)]
    return tuple({e.length.key: e.length for e in extents if isinstance(e, UpperBound)}.values())


PLACEHOLDER = Op("placeholder", lambda shape, dtype, name: [(shape, dtype)], kernel=None)
CONSTANT = Op("constant", lambda array: [(tuple(map(Const, array.shape)), array.dtype)], kernel=None)


def apply(op, *inputs, **params):
    """Apply an op to tensors of one kind; arrays among the inputs become constants.  One output, or a tuple."""
    kinds = {type(x) for x in inputs if isinstance(x, Tensor)}
    kinds |= {type(x) for x in computed_lengths(params)}
    if len(kinds) > 1:
        raise TypeError(f"{op.name} got traced and eager tensors together; give .value of the eager ones as arrays")
    kind = kinds.pop() if kinds else Traced
    tensors = tuple(x if isinstance(x, Tensor) else kind.constant(as_array(x)) for x in inputs)
    outputs = kind.bind(op, tensors, params)
    return outputs[0] if len(outputs) == 1 else outputs


def as_array(value):
    """A copy of an array, which stays as it is, of a dtype that the library has."""
    array = np.array(value)
    if array.dtype.kind in "iu":
        array = array.astype(np.int64)
    if array.dtype not in DTYPES:
        raise TypeError(f"the library has {', '.join(map(str, DTYPES))}; got {value!r} of dtype {array.dtype}")
    return array


def ancestors(tensors, stop=()):
    """The nodes that the tensors depend on, each after those that it depends on itself.

    stop: tensors that are taken as given; nothing behind them is visited.  The order follows from this graph alone,
    not from what else has been recorded: sums of cotangents are rounded in the same order every time.
    """
    given = {x.key for x in stop}
    ordered, seen, pending = [], set(), [(x, False) for x in reversed(tensors)]
    while pending:
        x, finished = pending.pop()
        if finished:
            ordered.append(x.node)
        elif x.key not in given and x.node.id not in seen:
            seen.add(x.node.id)
            pending.append((x, True))
            pending.extend((y, False) for y in reversed(x.node.dependencies))
    return ordered

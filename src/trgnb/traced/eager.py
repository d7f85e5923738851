"""Eager tensors: ops run at once and are written on a tape; the derivative is a program from a cache.

The tape holds every intermediate value, so ``backward`` recomputes nothing.  What it runs depends on the ops and
shapes of the tape alone: it is derived and compiled once for each such tape, and found again by its key.
"""

import sys
from collections import OrderedDict
from itertools import count
from threading import Lock
from typing import NamedTuple

import numpy as np

from trgnb.traced.extents import UpperBound, evaluate, extents_in, replace_extents, shown
from trgnb.traced.graph import Tensor, Traced, apply, as_array, computed_lengths
from trgnb.traced.program import compile
from trgnb.traced.settings import fold_extents, pad_truncated
from trgnb.traced.shapes import as_shape
from trgnb.traced.tensor import placeholder
from trgnb.traced.transform import vjp

_ids = count()


class Eager(Tensor):
    """A tensor with a value.  value: NumPy array.  grad: None, or the array that ``backward`` has added up.

    >>> y = traced.eager([1.0, 4.0]).sqrt()
    >>> y.value.tolist(), y.concrete_shape, y.grad
    ([1.0, 2.0], (2,), None)
    """

    __slots__ = ("entry", "grad", "leaf", "value")

    def __init__(self, value, shape, *, leaf=False, entry=None):
        self.value, self.shape, self.dtype = value, tuple(shape), value.dtype
        self.leaf, self.entry, self.grad = leaf, entry, None
        self.key = ("eager", next(_ids))

    def __repr__(self):
        return f"Eager({self.dtype}{shown(self.shape)}, {np.array2string(self.value, threshold=8)})"

    def __bool__(self):
        return bool(self.value)

    def __float__(self):
        return float(self.value)

    def __int__(self):
        return int(self.value)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.value, dtype=dtype, copy=copy)

    @property
    def concrete_shape(self):
        return self.value.shape

    @staticmethod
    def constant(array):
        """An eager tensor that is not differentiated."""
        return Eager(array, as_shape(array.shape))

    @staticmethod
    def bind(op, inputs, params):
        """The outputs of an op, computed; its entry on the tape, if a derivative can pass."""
        shapes = op.infer(*inputs, **params)
        lengths = computed_lengths(params)
        bindings = {
            e: int(e.length.value) for p in params.values() for e in extents_in(p) if isinstance(e, UpperBound)
        }
        numbers = {name: replace_extents(p, lambda e: evaluate(e, bindings)) for name, p in params.items()}
        with np.errstate(all="ignore"):
            result = op.kernel(*(x.value for x in inputs), **numbers)
        results = [result] if len(shapes) == 1 else result
        outputs = tuple(Eager(np.asarray(r), shape) for r, (shape, _) in zip(results, shapes, strict=True))
        # what has a computed length is on the tape too: the derivative's shapes hang on it
        bounded = computed_lengths({"shapes": tuple(tuple(shape) for shape, _ in shapes)})
        if lengths or bounded or (op.differentiable and any(x.leaf or x.entry is not None for x in inputs)):
            entry = _Entry(next(_ids), op, inputs, params, lengths, outputs)
            for y in outputs:
                y.entry = entry
        return outputs

    def backward(self, cotangent=None):
        """Add the derivative of this tensor with respect to every leaf to the ``grad`` of that leaf.

        cotangent: of the shape of the tensor; 1 for a real scalar, where it may be left out.
        Errors: ValueError where it is missing; DerivativeError where an op has no derivative.
        """
        if cotangent is None:
            if self.ndim or self.dtype.kind != "f":
                raise ValueError(f"backward of {self.dtype}{shown(self.shape)} needs a cotangent; only a real scalar has 1 by default")
            cotangent = np.ones((), self.dtype)
        backward([self], [cotangent])


class _Entry(NamedTuple):
    """An op on the tape."""

    id: int
    op: object
    inputs: tuple
    params: dict
    lengths: tuple
    outputs: tuple


def eager(array):
    """An eager tensor of an array: a leaf, whose ``grad`` is None until ``backward`` of a result adds to it.

    >>> x = traced.eager([1.0, 2.0])
    >>> (x * x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """
    value = as_array(array)
    return Eager(value, as_shape(value.shape), leaf=value.dtype.kind in "fc")


def backward(outputs, cotangents):
    """Add the derivatives of <outputs, cotangents> to the ``grad`` of every leaf that the outputs depend on.

    outputs: eager tensors of one computation.  cotangents: an array for each, of its shape.

    >>> x = traced.eager([1.0, 2.0])
    >>> traced.backward([x * x, x.sum()], [np.ones(2), 10.0])
    >>> x.grad.tolist()
    [12.0, 14.0]
    """
    for y in outputs:
        if not isinstance(y, Eager):
            raise TypeError(f"backward takes eager tensors, got {type(y).__name__}; traced tensors have grad(y, x)")
        if y.entry is None and not y.leaf:
            raise ValueError(f"backward: {y!r} does not depend on a leaf that can be differentiated; make one by eager(array)")
    cotangents = [np.asarray(c, y.dtype) for y, c in zip(outputs, cotangents, strict=True)]
    for y, c in zip(outputs, cotangents, strict=True):
        if c.shape != y.value.shape:
            raise ValueError(f"the cotangent of {y!r} must have its shape, got {list(c.shape)}")
    tape = _Tape(outputs)
    derivative = _cache.get(tape.key(), tape.derivative)
    results = derivative.program(*(tape.tensors[i].value for i in derivative.residuals), *cotangents)
    for i, gradient in zip(derivative.leaves, results, strict=True):
        leaf = tape.tensors[i]
        leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient


class _Derivative(NamedTuple):
    """A program of residuals and cotangents, and where on the tape its arguments and leaves are."""

    program: object
    residuals: tuple
    leaves: tuple

    @property
    def bytes(self):
        nodes = self.program.nodes
        return self.program.constant_bytes + sum(sys.getsizeof(n) + sys.getsizeof(n.params) for n in nodes)


class _Tape:
    """The entries behind some outputs.  tensors: every tensor there, numbered in the order of the computation."""

    def __init__(self, outputs):
        found, pending = {}, [y.entry for y in outputs if y.entry is not None]
        while pending:
            entry = pending.pop()
            if entry.id not in found:
                found[entry.id] = entry
                pending.extend(x.entry for x in (*entry.inputs, *entry.lengths) if x.entry is not None)
        self.outputs = outputs
        self.entries = [found[i] for i in sorted(found)]
        numbers = {y.key: y for y in outputs if y.entry is None}
        for entry in self.entries:
            for x in (*entry.inputs, *entry.lengths, *entry.outputs):
                numbers.setdefault(x.key, x)
        self.tensors = list(numbers.values())
        self.number = {key: n for n, key in enumerate(numbers)}

    def key(self):
        """Equal for tapes with the same derivative program."""

        def numbered(e):
            return ("bound", numbered(e.bound), self.number[e.length.key]) if isinstance(e, UpperBound) else e

        starts = [x for x in self.tensors if x.entry is None]
        return (
            tuple((self.number[x.key], x.value.shape, x.dtype, x.leaf) for x in starts),
            tuple(
                (
                    entry.op,
                    tuple(self.number[x.key] for x in entry.inputs),
                    tuple((name, replace_extents(p, numbered)) for name, p in entry.params.items()),
                )
                for entry in self.entries
            ),
            tuple(self.number[y.key] for y in self.outputs),
            fold_extents.on,
            pad_truncated.on,
        )

    def derivative(self):
        """The derivative program: the tape once more as a graph, its gradient, cut where the tape has values."""
        traced = {}

        def renewed(e):
            return UpperBound(renewed(e.bound), traced[e.length.key]) if isinstance(e, UpperBound) else e

        for x in self.tensors:
            if x.entry is None:
                traced[x.key] = placeholder(x.shape, x.dtype)
        for entry in self.entries:
            params = {name: replace_extents(p, renewed) for name, p in entry.params.items()}
            results = apply(entry.op, *(traced[x.key] for x in entry.inputs), **params)
            results = results if isinstance(results, tuple) else (results,)
            traced.update(zip((y.key for y in entry.outputs), results, strict=True))
        leaves = [n for n, x in enumerate(self.tensors) if x.leaf]
        cotangents = [placeholder(traced[y.key].shape, y.dtype) for y in self.outputs]
        gradients = vjp(
            [traced[y.key] for y in self.outputs], [traced[self.tensors[n].key] for n in leaves], cotangents
        )
        residuals, inputs = [], []
        given = {traced[x.key].key: n for n, x in reversed(list(enumerate(self.tensors)))}
        for x in _frontier(gradients, given, cotangents):
            residuals.append(given[x.key])
            inputs.append(x)
        return _Derivative(compile(gradients, [*inputs, *cotangents]), tuple(residuals), tuple(leaves))


def _frontier(outputs, given, cotangents):
    """The given tensors that the outputs need first, going back."""
    stop = given.keys() | {c.key for c in cotangents}
    found, seen, pending = {}, set(), list(outputs)
    while pending:
        x = pending.pop()
        if x.key in given:
            found[x.key] = x
        elif x.key not in stop and x.node.id not in seen:
            seen.add(x.node.id)
            pending.extend(x.node.dependencies)
    return list(found.values())


class CacheStats(NamedTuple):
    """What the cache of derivative programs has done; bytes: about what the programs in it occupy.

    >>> traced.CacheStats(1, hits=3, misses=1, evictions=0, bytes=2048).entries
    1
    """

    entries: int
    hits: int
    misses: int
    evictions: int
    bytes: int


class _Cache:
    """The derivative programs used last, at most ``size``."""

    def __init__(self, size):
        self.size, self._lock = size, Lock()
        self.clear()

    def clear(self):
        with self._lock:
            self._programs, self.hits, self.misses, self.evictions = OrderedDict(), 0, 0, 0

    def get(self, key, make):
        with self._lock:
            if key in self._programs:
                self.hits += 1
                self._programs.move_to_end(key)
                return self._programs[key]
            self.misses += 1
        derivative = make()
        with self._lock:
            self._programs[key] = derivative
            while len(self._programs) > self.size:
                self._programs.popitem(last=False)
                self.evictions += 1
        return derivative

    def stats(self):
        with self._lock:
            size = sum(d.bytes for d in self._programs.values())
            return CacheStats(len(self._programs), self.hits, self.misses, self.evictions, size)


_cache = _Cache(256)


def cache_stats():
    """Entries, hits, misses, evictions and bytes of the cache of derivative programs, since it was last cleared.

    >>> traced.clear_cache()
    >>> for _ in range(2):
    ...     traced.eager(1.0).exp().backward()
    >>> traced.cache_stats().misses, traced.cache_stats().hits
    (1, 1)
    """
    return _cache.stats()


def clear_cache():
    """Empty the cache of derivative programs and set its counts to zero.

    >>> traced.clear_cache()
    >>> traced.cache_stats()
    CacheStats(entries=0, hits=0, misses=0, evictions=0, bytes=0)
    """
    _cache.clear()

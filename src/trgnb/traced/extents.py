"""Extents: the length of an axis as the graph knows it, a number, a symbol or an expression.

``Const(4)`` is an int. ``Sym("n")`` is bound when a program runs. ``Min(a, b)`` is what a thin decomposition
records for its inner axis. ``UpperBound(bound, length)`` belongs to a result whose length is computed.
"""

from dataclasses import dataclass

import numpy as np

from trgnb.traced.settings import fold_extents


class Const(int):
    """A known length; an int in every respect.

    >>> traced.Const(4), traced.Const(4) + 1
    (Const(4), 5)
    """

    def __repr__(self):
        return f"Const({int(self)})"


@dataclass(frozen=True)
class _Expression:
    def __mul__(self, other):
        raise TypeError(f"an extent that is not constant, {self!r}, has no arithmetic: give reshape the extents themselves")

    __rmul__ = __add__ = __radd__ = __sub__ = __rsub__ = __floordiv__ = __mul__

    def __index__(self):
        raise TypeError(f"the extent {self!r} is no number while the graph is recorded; use an axis of constant extent")


@dataclass(frozen=True)
class Sym(_Expression):
    """A length known by name only; every axis with this name has the same.

    >>> x = traced.placeholder((3, "n"))
    >>> (x.T @ x).shape
    (Sym(n), Sym(n))
    """

    name: str

    def __repr__(self):
        return f"Sym({self.name})"


@dataclass(frozen=True)
class Min(_Expression):
    """The smaller of two lengths.

    >>> u, s, vh = traced.placeholder((4, "n")).svd()
    >>> s.shape
    (Min(Const(4), Sym(n)),)
    """

    a: object
    b: object

    def __repr__(self):
        return f"Min({self.a!r}, {self.b!r})"


@dataclass(frozen=True, eq=False)
class UpperBound(_Expression):
    """A length that the scalar integer tensor ``length`` holds at run time, at most ``bound``.

    >>> k = traced.placeholder((), "int64")
    >>> traced.placeholder((4,)).dynamic_truncate(k, axis=0).shape
    (UpperBound(Const(4)),)
    """

    bound: object
    length: object

    def __eq__(self, other):
        return isinstance(other, UpperBound) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    @property
    def _key(self):
        return self.bound, self.length.key

    def __repr__(self):
        return f"UpperBound({self.bound!r})"


EXTENTS = (Const, Sym, Min, UpperBound)


def extent(value):
    """Return an int, a name or an extent as an extent."""
    if isinstance(value, EXTENTS):
        return value
    if isinstance(value, str) and value.isidentifier():
        return Sym(value)
    if hasattr(value, "__index__") and not isinstance(value, bool) and value.__index__() >= 0:
        return Const(value.__index__())
    raise ValueError(f"an extent is a whole number >= 0, a name such as 'n', or an extent of another tensor, got {value!r}")


def minimum(a, b):
    """The extent of the inner axis of a thin decomposition: ``Min(a, b)``, or a number under ``fold_extents``."""
    if fold_extents.on and isinstance(a, Const) and isinstance(b, Const):
        return Const(min(a, b))
    return Min(a, b)


def known(e):
    """The number that an extent stands for, or None."""
    match e:
        case int():
            return int(e)
        case Min(a, b) if known(a) is not None and known(b) is not None:
            return min(known(a), known(b))


def same(a, b):
    """Whether two extents are certainly equal."""
    return a == b or (known(a) is not None and known(a) == known(b))


def at_most(a, b):
    """Whether an extent is certainly equal to or smaller than another."""
    return same(a, b) or (known(a) is not None and known(b) is not None and known(a) < known(b))


def evaluate(e, bindings):
    """The number for an extent; bindings: the numbers of the symbols and of the computed lengths."""
    match e:
        case int():
            return int(e)
        case Min(a, b):
            return min(evaluate(a, bindings), evaluate(b, bindings))
    return bindings[e]


def replace_extents(value, function):
    """The parameter of an op with every extent in it replaced."""
    if isinstance(value, EXTENTS):
        return function(value)
    if isinstance(value, tuple):
        return tuple(replace_extents(v, function) for v in value)
    return value


def extents_in(value):
    """The extents in a parameter of an op, those inside ``Min`` and ``UpperBound`` too."""
    match value:
        case tuple():
            return [e for v in value for e in extents_in(v)]
        case Min(a, b):
            return [value, *extents_in(a), *extents_in(b)]
        case UpperBound(bound, _):
            return [value, *extents_in(bound)]
        case Const() | Sym():
            return [value]
    return []


def symbols(e):
    """The symbols that the number for an extent depends on."""
    match e:
        case Sym():
            return {e}
        case Min(a, b):
            return symbols(a) | symbols(b)
    return set()


def shown(shape):
    """A shape for messages: numbers plain, anything else spelt out."""
    return "[" + ", ".join(str(int(e)) if isinstance(e, int) else repr(e) for e in shape) + "]"


def as_axis(name, x, axis):
    """A valid axis of x, counted from 0."""
    if not isinstance(axis, int | np.integer) or not -x.ndim <= axis < x.ndim:
        allowed = f"allowed are {-x.ndim} to {x.ndim - 1}" if x.ndim else "it has no axes"
        raise ValueError(f"{name} got axis {axis!r} for {shown(x.shape)}: {allowed}")
    return int(axis) % x.ndim

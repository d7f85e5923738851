"""The two mends of the library's derivatives, switched on for a ``with`` block."""

from contextlib import contextmanager
from contextvars import ContextVar


class Setting:
    """A switch that is off unless a ``with`` block turns it on: ``with fold_extents(): ...``."""

    def __init__(self, name, doc):
        self.__name__, self.__doc__ = name, doc
        self._on = ContextVar(name, default=False)

    @property
    def on(self):
        """Whether the setting holds here."""
        return self._on.get()

    @contextmanager
    def __call__(self, on=True):
        token = self._on.set(bool(on))
        try:
            yield
        finally:
            self._on.reset(token)

    def __repr__(self):
        return f"<setting {self.__name__}: {'on' if self.on else 'off'}>"


fold_extents = Setting(
    "fold_extents",
    """Record Min(Const(m), Const(n)) as Const(min(m, n)), so that a slice of an SVD or QR output has a gradient.

    >>> with traced.fold_extents():
    ...     u, s, vh = traced.placeholder((2, 3)).svd()
    >>> s.shape
    (Const(2),)
    """,
)
pad_truncated = Setting(
    "pad_truncated",
    """Differentiate dynamic_truncate of two or more axes, by padding the cotangent with zeros to the upper bound.

    >>> x, k = traced.placeholder((2, 3)), traced.placeholder((), "int64")
    >>> with traced.pad_truncated():
    ...     traced.grad(x.dynamic_truncate(k, axis=1).sum(), x).shape
    (Const(2), Const(3))
    """,
)

"""The stages of ln Z on the traced library: engines of the staged driver, as in ``trgnb.staging`` for JAX."""

from functools import cached_property, lru_cache

from trgnb import traced
from trgnb.staging import KeepingInput


def _present(*tensors):
    """Those that are there: the last stage has no y and gets no cotangent for it."""
    return [t for t in tensors if t is not None]


class _Recomputing(KeepingInput):
    """Value and backward programs of a stage; backward runs the stage again from its input."""

    def __init__(self, stage):
        # folded: the step slices its decompositions directly
        with traced.fold_extents():
            self.x = traced.placeholder(stage.input_shape, name="x")
            self.y, self.log = stage.function(traced)(self.x)

    @cached_property
    def value_program(self):
        """The program x -> y, log, without y for the last stage."""
        return traced.compile(_present(self.y, self.log), [self.x])

    @property
    def value(self):
        program = self.value_program
        return program if self.y is not None else lambda x: (None, *program(x))

    @cached_property
    def backward_program(self):
        """The program (x, ct_y, weight) -> ct_x, without ct_y for the last stage."""
        outputs = _present(self.y, self.log)
        with traced.fold_extents():
            cotangents = [traced.placeholder(t.shape, name="cotangent") for t in outputs]
            return traced.compile(traced.vjp(outputs, [self.x], cotangents), [self.x, *cotangents])

    @property
    def backward(self):
        program = self.backward_program
        return lambda x, ct, weight: program(x, *_present(ct, weight))[0]


class _Eager:
    """The stage run eagerly: its tape keeps the residuals, and backward takes a derivative program from the cache."""

    def __init__(self, stage):
        self.function = stage.function(traced)

    def value(self, x):
        y, log = self.function(traced.eager(x))
        return None if y is None else y.value, log.value

    def forward(self, x):
        x = traced.eager(x)
        y, log = self.function(x)
        return None if y is None else y.value, log.value, (x, y, log)

    def backward(self, residuals, ct, weight):
        x, y, log = residuals
        with traced.fold_extents():
            traced.backward(_present(y, log), _present(ct, weight))
        return x.grad


recomputing = lru_cache(_Recomputing)
"""Traced engine that keeps only the input of a stage; its backward program runs the stage again."""

eager = lru_cache(_Eager)
"""Traced engine that keeps the residuals of a stage on its tape: nothing runs twice."""

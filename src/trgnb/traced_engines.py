"""The stages of ln Z on the traced library: engines of the staged driver, as in ``trgnb.staging`` for JAX."""

from functools import cached_property, lru_cache

from trgnb import traced


class _Recomputing:
    """Value and backward programs of a stage; backward runs the stage again from its input."""

    def __init__(self, stage):
        self.stage = stage
        # folded: the step slices its decompositions directly
        with traced.fold_extents():
            self.x = traced.placeholder(stage.input_shape, name="x")
            self.y, self.log = stage.function(traced)(self.x)

    @cached_property
    def value_program(self):
        """The program x -> y, log, without y for the last stage."""
        return traced.compile([self.log] if self.y is None else [self.y, self.log], [self.x])

    @property
    def value(self):
        program = self.value_program
        return program if self.y is not None else lambda x: (None, *program(x))

    @property
    def forward(self):
        value = self.value  # built here, not at the first call
        return lambda x: (*value(x), x)

    @cached_property
    def backward_program(self):
        """The program (x, ct_y, weight) -> ct_x, without ct_y for the last stage."""
        with traced.fold_extents():
            weight = traced.placeholder((), name="weight")
            if self.y is None:
                return traced.compile(traced.vjp([self.log], [self.x], [weight]), [self.x, weight])
            ct = traced.placeholder(self.y.shape, name="ct")
            gradients = traced.vjp([self.y, self.log], [self.x], [ct, weight])
            return traced.compile(gradients, [self.x, ct, weight])

    @property
    def backward(self):
        program = self.backward_program
        if self.y is None:
            return lambda x, ct, weight: program(x, weight)[0]
        return lambda x, ct, weight: program(x, ct, weight)[0]


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
            if y is None:
                traced.backward([log], [weight])
            else:
                traced.backward([y, log], [ct, weight])
        return x.grad


recomputing = lru_cache(_Recomputing)
"""Traced engine that keeps only the input of a stage; its backward program runs the stage again."""

eager = lru_cache(_Eager)
"""Traced engine that keeps the residuals of a stage on its tape: nothing runs twice."""

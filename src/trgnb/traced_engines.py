"""The stages of ln Z on the traced library: engines of the staged driver, as in ``trgnb.staging`` for JAX."""

from functools import cached_property, lru_cache

from trgnb import traced
from trgnb.staging import KeepingInput, map_shapes


def _leaves(tree):
    """The tensors of nested tuples in a row.  None, the y of the last stage and its cotangent, is nothing."""
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [] if tree is None else [tree]


def _like(tree, leaves):
    """The leaves, an iterator, in the nesting of a tree."""
    if isinstance(tree, tuple):
        return tuple(_like(part, leaves) for part in tree)
    return None if tree is None else next(leaves)


class _Recomputing(KeepingInput):
    """Value and backward programs of a stage; backward runs the stage again from its input."""

    def __init__(self, stage):
        # folded: the step slices its decompositions directly
        with traced.fold_extents():
            self.x = map_shapes(lambda shape: traced.placeholder(shape, name="x"), stage.input_shape)
            self.y, self.log = stage.function(traced)(self.x)

    @cached_property
    def value_program(self):
        """The program x -> y, log, without y for the last stage."""
        return traced.compile(_leaves((self.y, self.log)), _leaves(self.x))

    @property
    def value(self):
        program, results = self.value_program, (self.y, self.log)
        return lambda x: _like(results, iter(program(*_leaves(x))))

    @cached_property
    def backward_program(self):
        """The program (x, ct_y, weight) -> ct_x, without ct_y for the last stage."""
        inputs, outputs = _leaves(self.x), _leaves((self.y, self.log))
        with traced.fold_extents():
            cotangents = [traced.placeholder(t.shape, name="cotangent") for t in outputs]
            return traced.compile(traced.vjp(outputs, inputs, cotangents), [*inputs, *cotangents])

    @property
    def backward(self):
        program = self.backward_program
        return lambda x, ct, weight: _like(self.x, iter(program(*_leaves((x, ct, weight)))))

    @cached_property
    def value_tangent(self):
        """(x, dx) -> ((y, log), (dy, dlog))."""
        results, inputs = (self.y, self.log), _leaves(self.x)
        with traced.fold_extents():
            tangents = [traced.placeholder(t.shape, name="tangent") for t in inputs]
            outputs = _leaves(results)
            program = traced.compile([*outputs, *traced.jvp(outputs, inputs, tangents)], [*inputs, *tangents])

        def value_tangent(x, dx):
            found = iter(program(*_leaves((x, dx))))
            return _like(results, found), _like(results, found)

        return value_tangent

    @cached_property
    def backward_tangent(self):
        """((x, dx), ct_y, dct_y, weight) -> (ct_x, dct_x)."""
        inputs, outputs = _leaves(self.x), _leaves((self.y, self.log))
        with traced.fold_extents():
            cotangents, slopes = ([traced.placeholder(t.shape, name=name) for t in outputs[:-1]] for name in ("ct", "dct"))
            tangents = [traced.placeholder(t.shape, name="tangent") for t in inputs]
            weight = traced.placeholder((), name="weight")
            pulled = traced.vjp(outputs, inputs, [*cotangents, weight])
            turned = traced.jvp(pulled, [*inputs, *cotangents], [*tangents, *slopes])
            program = traced.compile([*pulled, *turned], [*inputs, *tangents, *cotangents, *slopes, weight])

        def backward_tangent(kept, ct, dct, weight):
            found = iter(program(*_leaves((kept, ct, dct, weight))))
            return _like(self.x, found), _like(self.x, found)

        return backward_tangent


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
            traced.backward(_leaves((y, log)), _leaves((ct, weight)))
        return x.grad


recomputing = lru_cache(_Recomputing)
"""Traced engine that keeps only the input of a stage; its backward program runs the stage again."""

eager = lru_cache(_Eager)
"""Traced engine that keeps the residuals of a stage on its tape: nothing runs twice."""

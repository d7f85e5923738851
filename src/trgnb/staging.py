"""Twenty steps without twenty copies: scan, checkpoint, and per-shape programs chained by hand.

The staged driver knows nothing of JAX.  It sees a chain of stages, each a function x -> (y, log): the
initial tensor, the steps, the closing trace.  ln Z per spin is the weighted sum of the logs, so the
cotangent of each x follows from that of its y alone::

    ct_x = d/dx [ <y(x), ct_y> + weight * log(x) ]

An engine turns a stage into programs for it; stages that agree in (name, d, k) share theirs.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache, partial
from threading import RLock
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from trgnb import trg


def scan_lnz(beta, ks, step=trg.step):
    """ln Z per spin with the equal steps at the end of the schedule in one lax.scan.

    A scan takes steps of one shape only, so those before the last run of d = k stay unrolled.
    Arguments: as for ``trg.unrolled_lnz``.

    >>> ks = (2, 2, 2)
    >>> bool(np.isclose(staging.scan_lnz(0.3, ks), trg.unrolled_lnz(0.3, ks)))
    True
    """
    w = trg.weights(len(ks))
    head = equal_tail(ks)
    t, log_norm = trg.first_tensor(beta)
    total = w[0] * log_norm
    for n, k in enumerate(ks[:head], start=1):
        t, log_norm = step(t, k)
        total = total + w[n] * log_norm

    def body(t, weight):
        t, log_norm = step(t, ks[-1])
        return t, weight * log_norm

    t, terms = lax.scan(body, t, jnp.asarray(w[head + 1 : -1]))
    for term in terms:  # one by one, in the order of the unrolled sum
        total = total + term
    return total + w[-1] * trg.log_trace(t)


def equal_tail(ks):
    """Index of the first step of the last run with d = k: what a scan can take starts here."""
    head = len(ks)
    while head > 0 and (2, *ks)[head - 1] == ks[-1]:
        head -= 1
    return head


def checkpoint_lnz(beta, ks):
    """ln Z per spin with jax.checkpoint around each step, so that the backward pass recomputes it.

    The steps of the tail are scanned: a loop of XLA's own runs its steps in order, while the optimization
    barriers between unrolled checkpoints do not keep every version of XLA from recomputing all steps
    first and holding all their residuals at once.

    Right only because a step starts with the decomposition of its stored input (see ``trg``): were the
    norm taken first, its recomputed value could differ in the last bit, the SVD return other signs or
    another basis of a degenerate space, and the stored cotangent refer to the old ones.
    Arguments: as for ``trg.unrolled_lnz``.

    >>> ks = (2, 2)
    >>> value = staging.checkpoint_lnz(0.3, ks)
    >>> bool(np.isclose(value, trg.unrolled_lnz(0.3, ks)))
    True
    """
    return scan_lnz(beta, ks, step=jax.checkpoint(trg.step, static_argnums=1))


class Stage(NamedTuple):
    """A link of the chain: its function's name, bond dimensions in and out (0 where there is none).

    name: "initial", "step" or "trace".  d, k: bond dimension into and out of the stage.

    >>> step = staging.Stage("step", d=2, k=3)
    >>> y, log = step.function(trg.NUMPY)(np.ones(step.input_shape))
    >>> y.shape
    (3, 3, 3, 3)
    """

    name: str
    d: int
    k: int

    def function(self, xp):
        """The function x -> (y, log) of this stage, in the array namespace xp."""
        match self.name:
            case "initial":
                return lambda beta: trg.first_tensor(beta, xp)
            case "step":
                return lambda t: trg.step(t, self.k, xp)
            case "trace":
                return lambda t: (None, trg.log_trace(t, xp))

    @property
    def input_shape(self):
        return (self.d,) * 4 if self.d else ()


def map_shapes(make, shapes):
    """make(shape) for a shape or for each in nested tuples of shapes: the input of a stage may be several arrays."""
    if all(isinstance(n, int) for n in shapes):
        return make(shapes)
    return tuple(map_shapes(make, part) for part in shapes)


def stages(ks):
    """The chain of ln Z for a schedule: initial tensor, one step for each k, closing trace.

    >>> for stage in staging.stages((2, 4)):
    ...     print(*stage)
    initial 0 2
    step 2 2
    step 2 4
    trace 4 0
    """
    dims = (2, *ks)
    steps = (Stage("step", d, k) for d, k in zip(dims, ks, strict=False))
    return (Stage("initial", 0, 2), *steps, Stage("trace", dims[-1], 0))


class Programs(Protocol):
    """What an engine makes of a stage; every program takes and returns concrete arrays, and is built when first used.

    value: x -> (y, log).
    forward: x -> (y, log, residuals), residuals being whatever backward wants to see again.
    backward: (residuals, ct_y, weight) -> ct_x, the cotangent of x.
    For second derivatives also (each d.. is the derivative of .. with respect to beta, and residuals those of this pass)
    forward_tangent: (x, dx) -> ((y, log), (dy, dlog), residuals).
    backward_tangent: (residuals, ct_y, dct_y, weight) -> (ct_x, dct_x).

    >>> programs = traced_engines.recomputing(staging.Stage("step", 2, 2))
    >>> y, log, residuals = programs.forward(np.ones((2, 2, 2, 2)))
    >>> programs.backward(residuals, np.zeros_like(y), 1.0).shape
    (2, 2, 2, 2)
    """

    value: Callable[[Any], tuple]
    forward: Callable[[Any], tuple]
    backward: Callable[[Any, Any, float], Any]


def staged_lnz(engine, beta, ks):
    """ln Z per spin, stage by stage, a float.  engine: Stage -> Programs.

    >>> round(staging.staged_lnz(traced_engines.recomputing, 0.3, (2, 4)), 6)
    0.883259
    """
    x, total = beta, 0.0
    for programs, weight in _chain(engine, ks, "value"):
        x, log = programs.value(x)
        total += weight * float(log)
    return total


def staged_lnz_and_grad(engine, beta, ks):
    """ln Z per spin and its beta derivative, two floats: forward, then the cotangents from the last stage back.

    >>> pair = staging.staged_lnz_and_grad(traced_engines.eager, 0.3, (2, 4))
    >>> [round(number, 6) for number in pair]
    [0.883259, 1.277612]
    """
    chain = _chain(engine, ks, "forward", "backward")
    x, logs, kept = beta, [], []
    for programs, _ in chain:
        x, log, residuals = programs.forward(x)
        logs.append(log)
        kept.append(residuals)
    ct = None
    for programs, weight in reversed(chain):
        ct = programs.backward(kept.pop(), ct, weight)
    total = 0.0
    for log, (_, weight) in zip(logs, chain, strict=True):
        total += weight * float(log)
    return total, float(ct)


def staged_second(engine, beta, ks):
    """ln Z per spin with its first and second beta derivative, three floats: forward-over-reverse, stage by stage.

    Each pass carries, beside its values, their derivatives with respect to beta.
    engine: one whose programs have ``forward_tangent`` and ``backward_tangent``.

    >>> triple = staging.staged_second(traced_engines.recomputing, 0.3, (2, 4))
    >>> [round(number, 6) for number in triple]
    [0.883259, 1.277612, 3.861353]
    """
    chain = _chain(engine, ks, "forward_tangent", "backward_tangent")
    x, dx, kept = beta, np.float64(1.0), []
    total, first = 0.0, 0.0
    for programs, weight in chain:
        (x, log), (dx, dlog), residuals = programs.forward_tangent(x, dx)
        kept.append(residuals)
        total, first = total + weight * float(log), first + weight * float(dlog)
    ct, dct = None, None
    for programs, weight in reversed(chain):
        ct, dct = programs.backward_tangent(kept.pop(), ct, dct, weight)
    return total, float(ct), float(dct)


@lru_cache
def _chain(engine, ks, *needed):
    """The pairs (programs, weight) of the chain, with the needed programs of every stage built."""

    def build(stage):
        programs = engine(stage)
        for name in needed:
            getattr(programs, name)
        return programs

    chain = stages(ks)
    different = tuple(dict.fromkeys(chain))
    # Threads: the compiler releases Python's lock, so that small programs compile side by side.
    with ThreadPoolExecutor() as pool:
        built = dict(zip(different, pool.map(build, different), strict=True))
    return tuple(zip((built[stage] for stage in chain), trg.weights(len(ks)), strict=True))


class KeepingInput:
    """The forward program of an engine whose only residual is the input of the stage."""

    @property
    def forward(self):
        value = self.value  # built here, not at the first call
        return lambda x: (*value(x), x)

    @property
    def forward_tangent(self):
        tangent = self.value_tangent
        return lambda x, dx: (*tangent(x, dx), (x, dx))


class _built_once(cached_property):
    """A cached property that one thread builds: a forward and a backward program of different traces do not fit."""

    def __get__(self, programs, owner=None):
        with programs.lock:
            return super().__get__(programs, owner)


class _JaxPrograms:
    """The JAX programs of a stage, compiled ahead of time."""

    def __init__(self, stage):
        self.lock = RLock()
        self.function = stage.function(trg.JAX)
        self.x = map_shapes(lambda shape: jax.ShapeDtypeStruct(shape, jnp.float64), stage.input_shape)

    @_built_once
    def value(self):
        return jax.jit(self.function).lower(self.x).compile()


class _Recomputing(KeepingInput, _JaxPrograms):
    def _pull(self, x, ct, weight):
        return jax.vjp(self.function, x)[1]((ct, weight))[0]

    @_built_once
    def backward(self):
        y, log = jax.eval_shape(self.function, self.x)
        return jax.jit(self._pull).lower(self.x, y, log).compile()

    @_built_once
    def value_tangent(self):
        def value_tangent(x, dx):
            return jax.jvp(self.function, (x,), (dx,))

        return jax.jit(value_tangent).lower(self.x, self.x).compile()

    @_built_once
    def backward_tangent(self):
        def backward_tangent(kept, ct, dct, weight):
            x, dx = kept
            return jax.jvp(partial(self._pull, weight=weight), (x, ct), (dx, dct))

        y, log = jax.eval_shape(self.function, self.x)
        return jax.jit(backward_tangent).lower((self.x, self.x), y, y, log).compile()


class _Keeping(_JaxPrograms):
    @_built_once
    def forward(self):
        def forward(x):
            (y, log), pullback = jax.vjp(self.function, x)
            return y, log, pullback

        return jax.jit(forward).lower(self.x).compile()

    @_built_once
    def backward(self):
        def backward(pullback, ct, weight):
            return pullback((ct, weight))[0]

        # The shapes must come from the compiled forward program: another trace has another pullback.
        y, log, pullback = _avals(self.forward)
        return jax.jit(backward).lower(pullback, y, log).compile()


recomputing = lru_cache(_Recomputing)
"""JAX engine that keeps only the input of a stage; its backward program runs the stage again.

Both programs decompose the same stored bits, so both find the same singular vectors.
"""

keeping = lru_cache(_Keeping)
"""JAX engine whose forward program hands its residuals to the backward program: nothing runs twice."""


def _avals(compiled):
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), compiled.out_info)

r"""The TRG step by parity: eigendecompositions of symmetric blocks instead of SVDs.

The tensor T_urdl is Z2-even, zero unless an even number of its legs is odd, and symmetric under a half turn up to a
sign for each index of a leg::

    T_urdl = sigma_u tau_l S_urdl,    S_urdl = S_dlur.

So S is a symmetric matrix for either cut, with one block of even and one of odd pairs of legs.  With S = Q diag(w) Q^T
the halves of T are (sigma Q |w|^1/2) and (sign(w) |w|^1/2 Q^T tau), those of its SVD, and the plaquette of four of
them is again a T of this form, whose signs are those of the kept w.  A tensor that a quarter turn maps to itself has
the same S for both cuts, and one decomposition serves for both; the steps keep it so.

The decompositions run in NumPy, and the values to keep are chosen there, on concrete numbers.  What remains of a step
is one program for each number of (even, odd) values that come in and go out, made by an engine of the staged driver.
"""

import operator
import warnings
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from trgnb import trg
from trgnb.blocks import blocks_of, half_blocks, half_tensor, parts, tensor_of
from trgnb.eigenpairs import Eigenpairs, leading
from trgnb.sector_stages import TO_LEFT_UP, TO_UP_RIGHT, First, Join, Trace

# --- the state between the steps, and what is kept ---------------------------------------------------------------


class Graded(NamedTuple):
    """A tensor of the form above.

    blocks: even and odd block of S cut between (left, up) and (right, down).  signs: sigma and tau.
    legs: (even, odd) dimensions of the vertical and of the horizontal legs.
    same: a quarter turn maps S to itself.  n: number of steps that led here.
    """

    blocks: tuple
    signs: tuple
    legs: tuple
    same: bool
    n: int = 0

    def cuts(self, blocks):
        """Blocks and legs of the cuts to decompose: (up, right) and (left, up), or one that stands for both."""
        v, h = self.legs
        if self.same:
            return [(blocks, (v, h))]
        turned = np.transpose(tensor_of(blocks, h, v), TO_UP_RIGHT)
        return [(blocks_of(turned, v, h, trg.NUMPY), (v, h)), (blocks, (h, v))]

    def uncut(self, cotangents):
        """The cotangent of the blocks from those of the cuts."""
        if self.same:
            return cotangents[0]
        v, h = self.legs
        back = blocks_of(np.transpose(tensor_of(cotangents[0], v, h), TO_LEFT_UP), h, v, trg.NUMPY)
        return tuple(a + b for a, b in zip(back, cotangents[1], strict=True))


def check_schedule(schedule):
    """Return the schedule as a tuple of ints, or of (even, odd) pairs, or raise ValueError that says what is allowed."""
    schedule = tuple(schedule) if isinstance(schedule, Iterable) else schedule
    if not isinstance(schedule, tuple) or not any(isinstance(k, Iterable) for k in schedule):
        return trg.check_schedule(schedule)
    leg, pairs = (1, 1), []
    for n, pair in enumerate(schedule):
        try:
            even, odd = map(operator.index, pair)
        except (TypeError, ValueError):
            raise ValueError(f"schedule[{n}] = {pair!r} is no pair (even, odd) of whole numbers; give all steps such pairs, or none") from None
        most = tuple(sum(leg[i] * leg[j] for i, j in parts(p)) for p in (0, 1))
        if not (0 <= even <= most[0] and 0 <= odd <= most[1] and even + odd):
            raise ValueError(
                f"schedule[{n}] = {(even, odd)} is not possible: step {n} decomposes an even block of {most[0]} and an odd one "
                f"of {most[1]} rows, so at most {most} values can be kept, and at least one"
            )
        pairs.append(leg := (even, odd))
    return tuple(pairs)


class MultipletWarning(UserWarning):
    """A truncation parted values that are equal up to rounding, so that rounding decides what is kept.

    step: number of the step, from 1.  values: the least value kept and the largest dropped.  gap: their difference.

    >>> print(trgnb.MultipletWarning(step=3, values=(0.5, 0.5), gap=0.0))
    step 3 keeps 0.5 and drops 0.5, only 0.0e+00 apart: rounding decides which one; keep one value more or less
    """

    def __init__(self, step, values, gap):
        super().__init__(step, values, gap)
        self.step, self.values, self.gap = step, values, gap

    def __str__(self):
        kept, dropped = self.values
        return (
            f"step {self.step} keeps {kept:.17g} and drops {dropped:.17g}, only {self.gap:.1e} apart: rounding decides which one; "
            "keep one value more or less"
        )


# A value is known to about this, relative to the largest, which is near 1; a dropped one below the second moves nothing.
_ROUNDING, _NEGLIGIBLE = 1e-14, 1e-10


def choose(values, k, step):
    """Positions of the even and of the odd eigenvalues to keep: the k largest in size, or k = (even, odd) of each.

    Warns with a MultipletWarning where the choice is one of rounding.
    """
    sizes = [np.abs(w) for w in values]
    if isinstance(k, tuple):
        counts, races = k, [[0], [1]]
    else:
        even = int((np.argsort(-np.concatenate(sizes), kind="stable")[:k] < sizes[0].size).sum())
        counts, races = (even, k - even), [[0, 1]]
    order = [np.argsort(-size, kind="stable") for size in sizes]
    for race in races:
        kept = [sizes[p][i] for p in race for i in order[p][: counts[p]]]
        dropped = [sizes[p][i] for p in race for i in order[p][counts[p] :]]
        if kept and dropped and max(dropped) > _NEGLIGIBLE and (gap := min(kept) - max(dropped)) < _ROUNDING:
            warnings.warn(MultipletWarning(step, (float(min(kept)), float(max(dropped))), float(gap)), stacklevel=2)
    return [i[:count] for i, count in zip(order, counts, strict=True)]


class Cut:
    """The eigenpairs of the blocks of S in one cut, and the half that they make."""

    def __init__(self, blocks, legs, k, step, complete=False):
        if not all(np.isfinite(block).all() for block in blocks):
            raise FloatingPointError(f"step {step} was given a tensor that is not finite: all of its values were dropped, or too small")
        # As many again as are kept, or all that could be kept and one more.
        counts = [2 * count for count in k] if isinstance(k, tuple) else (k + 1, k + 1)
        spectra = [np.linalg.eigh(s) if complete else leading(s, count) for s, count in zip(blocks, counts, strict=True)]
        kept = choose([w for w, _ in spectra], k, step)
        self.legs = legs
        self.blocks = [_eigenpairs(block, *spectrum, i) for block, spectrum, i in zip(blocks, spectra, kept, strict=True)]
        self.kept = tuple(map(len, kept))
        self.signs = np.concatenate([block.signs for block in self.blocks])
        self.half = half_tensor([block.half for block in self.blocks], *legs)

    def pull(self, ct):
        """Cotangents of the blocks for that of the half."""
        return tuple(block.pull(c) for block, c in zip(self.blocks, self._split(ct), strict=True))

    def turn(self, tangents):
        """What tangents of the blocks do to the eigenpairs."""
        return [block.turn(ds) for block, ds in zip(self.blocks, tangents, strict=True)]

    def half_tangent(self, turns):
        """The tangent of the half."""
        return half_tensor([block.half_tangent(turn) for block, turn in zip(self.blocks, turns, strict=True)], *self.legs)

    def pull_tangent(self, turns, ct, dct):
        """The tangent of ``pull``."""
        zipped = zip(self.blocks, turns, self._split(ct), self._split(dct), strict=True)
        return tuple(block.pull_tangent(*rest) for block, *rest in zipped)

    def _split(self, t):
        return half_blocks(t, *self.legs, self.kept)


def _eigenpairs(s, w, q, kept):
    """Eigenpairs of S, decomposed again and wholly where those at hand do not reach far enough beyond the kept ones."""
    if len(w) == len(s):
        return Eigenpairs(w, q, kept)
    if 2.0 * np.abs(w).min() > np.abs(w[kept]).min(initial=np.inf):
        w, q = np.linalg.eigh(s)
        return Eigenpairs(w, q, np.argsort(-np.abs(w), kind="stable")[: len(kept)])
    return Eigenpairs(w, q, kept, s)


# --- the engine ----------------------------------------------------------------------------------------------------


@lru_cache
def over(engine):
    """The engine of the staged driver that goes by sectors; the programs of its stages are made by another engine.

    Where the initial tensor lacks the symmetry it warns and is that other engine.
    Errors: ValueError then, if the numbers of even and odd values are given.

    >>> engine = sectors.over(traced_engines.recomputing)
    >>> round(staging.staged_lnz(engine, 0.3, (2, 4)), 6)
    0.883259
    """
    tensors = [trg.first_tensor(beta, trg.NUMPY)[0] for beta in _GENERIC_BETAS]
    same = all(np.abs(t - np.transpose(t, TO_LEFT_UP)).max() <= _ROUNDING for t in tensors)
    if fault := next(filter(None, map(asymmetry, tensors)), None):
        warnings.warn(f"the initial tensor {fault}: the steps are those of plain SVDs", stacklevel=2)

    @lru_cache
    def sectors(stage):
        if not fault:
            return {"initial": _Initial, "step": _Step, "trace": _Trace}[stage.name](stage, engine, same)
        if isinstance(stage.k, tuple):
            raise ValueError(f"the initial tensor {fault}, so that no (even, odd) = {stage.k} can be kept: give a number")
        return engine(stage)

    return sectors


# Not both of them values at which a tensor is symmetric by chance.
_GENERIC_BETAS = 0.3, 0.7


def asymmetry(t):
    """What a tensor (d, d, d, d) lacks of the symmetry of a Graded one whose signs are all 1, in words, or None.

    >>> sectors.asymmetry(np.arange(16.0).reshape(2, 2, 2, 2))
    'is not even: entries that should be zero are up to 1.4e+01'
    """
    odd = np.indices(t.shape).sum(axis=0) % 2 == 1
    size = np.abs(t).max()
    for what, rest in (
        ("is not even: entries that should be zero are up to", np.where(odd, t, 0.0)),
        ("is not symmetric under a half turn, which changes it by up to", t - np.transpose(t, (2, 3, 0, 1))),
    ):
        if np.abs(rest).max() > _ROUNDING * size:
            return f"{what} {np.abs(rest).max():.1e}"
    return None


class _Programs:
    """Programs whose residual is the function of the backward pass."""

    def __init__(self, stage, engine, same):
        self.stage, self.engine, self.same = stage, engine, same

    # The driver asks for what it needs from several threads, and the engine builds it there; which numbers are kept
    # is not known yet, and even and odd ones in equal parts are the likely case.

    @property
    def value(self):
        self.engine(self.likely()).value
        return lambda x: self.run(x)[:2]

    @property
    def forward(self):
        self.engine(self.likely()).value
        return self.run

    @property
    def backward(self):
        self.engine(self.likely()).backward
        return lambda pull, ct, weight: pull(ct, weight)

    @property
    def forward_tangent(self):
        self.engine(self.likely()).value_tangent
        return self.run_tangent

    @property
    def backward_tangent(self):
        self.engine(self.likely()).backward_tangent
        return lambda pull, ct, dct, weight: pull(ct, dct, weight)


class _Initial(_Programs):
    def likely(self):
        return First()

    def run(self, beta):
        programs = self.engine(First())
        blocks, log = programs.value(beta)
        return self._graded(blocks), log, partial(programs.backward, beta)

    def run_tangent(self, beta, dbeta):
        programs = self.engine(First())
        (blocks, log), tangents = programs.value_tangent(beta, dbeta)
        return (self._graded(blocks), log), tangents, partial(programs.backward_tangent, (beta, dbeta))

    def _graded(self, blocks):
        return Graded(_arrays(blocks), (np.ones(2), np.ones(2)), ((1, 1), (1, 1)), self.same)


class _Step(_Programs):
    def likely(self):
        legs, kept = ((_halves(n),) * 2 for n in (self.stage.d, self.stage.k))
        return Join(legs, kept, self.same)

    def run(self, x):
        cuts, programs, inputs, graded = self._decompose(x)
        blocks, log = programs.value(inputs)

        def pull(ct, weight):
            ct, _ = _arrays(programs.backward(inputs, ct, weight))
            return x.uncut([cut.pull(c) for cut, c in zip(cuts, ct, strict=True)])

        return graded(blocks), log, pull

    def run_tangent(self, x, dx):
        cuts, programs, inputs, graded = self._decompose(x, complete=True)
        turns = [cut.turn(d) for cut, (d, _) in zip(cuts, x.cuts(_arrays(dx)), strict=True)]
        halves = tuple(cut.half_tangent(turn) for cut, turn in zip(cuts, turns, strict=True))
        tangents = halves, tuple(map(np.zeros_like, x.signs))
        (blocks, log), dy = programs.value_tangent(inputs, tangents)

        def pull(ct, dct, weight):
            (ct, _), (dct, _) = _arrays(programs.backward_tangent((inputs, tangents), ct, dct, weight))
            pulled = [cut.pull(c) for cut, c in zip(cuts, ct, strict=True)]
            dpulled = [cut.pull_tangent(*both) for cut, *both in zip(cuts, turns, ct, dct, strict=True)]
            return x.uncut(pulled), x.uncut(dpulled)

        return (graded(blocks), log), dy, pull

    def _decompose(self, x, complete=False):
        cuts = [Cut(*blocks_and_legs, self.stage.k, x.n + 1, complete) for blocks_and_legs in x.cuts(x.blocks)]
        vertical, horizontal = cuts[0], cuts[-1]
        kept = vertical.kept, horizontal.kept
        programs = self.engine(Join(x.legs, kept, x.same))
        inputs = tuple(cut.half for cut in cuts), x.signs

        def graded(blocks):
            return Graded(_arrays(blocks), (vertical.signs, horizontal.signs), kept, x.same, x.n + 1)

        return cuts, programs, inputs, graded


class _Trace(_Programs):
    def likely(self):
        return Trace((_halves(self.stage.d),) * 2)

    def run(self, x):
        programs, inputs = self.engine(Trace(x.legs)), (x.blocks, x.signs)
        return *programs.value(inputs), lambda ct, weight: programs.backward(inputs, ct, weight)[0]

    def run_tangent(self, x, dx):
        programs, inputs = self.engine(Trace(x.legs)), (x.blocks, x.signs)
        tangents = dx, tuple(map(np.zeros_like, x.signs))

        def pull(ct, dct, weight):
            (ct, _), (dct, _) = programs.backward_tangent((inputs, tangents), ct, dct, weight)
            return ct, dct

        return *programs.value_tangent(inputs, tangents), pull


def _halves(n):
    """Even and odd numbers, as given or in equal parts."""
    return n if isinstance(n, tuple) else (n // 2, n - n // 2)


def _arrays(tree):
    """NumPy arrays for those of an engine."""
    return tuple(map(_arrays, tree)) if isinstance(tree, tuple) else np.asarray(tree)

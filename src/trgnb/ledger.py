"""The ledger: every claim of the sources beside what this build finds, with a verdict.

A claim is reproduced, or differs for a reason that is given, or depends on the machine, where nothing but a ratio
compares.  A difference without a reason, a reason without a difference and a claim without an entry are errors.
"""

from typing import NamedTuple

import numpy as np

from trgnb.recorded import Claim, claims

VERDICTS = ("reproduced", "differs", "machine")
# The kinds of claims that are numbers; those of kind text, property and count say how something behaves.
NUMBERS = ("value", "grad", "error")


class Entry(NamedTuple):
    """A line of the ledger.  here: what this build finds, as text; difference: the largest, where numbers compare."""

    claim: Claim
    here: str
    difference: float | None
    verdict: str
    reason: str


class Ledger:
    """Entries for the claims, made one by one and complete when ``close`` passes.

    >>> book = ledger.Ledger()
    >>> book.number("staging.lnz.0.30", 0.790559063800966)
    >>> book.entries["staging.lnz.0.30"].verdict
    'reproduced'
    """

    def __init__(self):
        self.entries = {}

    def number(self, name, here, *, atol=None, because=""):
        """Hold a number, or several, against the recorded figures within the tolerance of the claim.

        atol: array of tolerances, where those of the claim do not say enough.  because: why it differs.
        """
        claim = self._claim(name)
        old = np.concatenate([np.ravel(figure) for figure in claim.figures.values()]).astype(float)
        here = np.ravel(np.asarray(here, float))
        if here.shape != old.shape:
            raise ValueError(f"claim {name!r} has figures of shape {old.shape}, got {here.shape}")
        allowed = claim.atol + claim.rtol * np.abs(old) if atol is None else np.asarray(atol)
        both_nan = np.isnan(old) & np.isnan(here)
        apart = np.where(both_nan, 0.0, np.abs(here - old))
        agrees = bool(np.all(both_nan | (apart <= allowed)))
        self._enter(claim, agrees, because, ", ".join(f"{x:.5g}" if claim.rtol else f"{x:.16g}" for x in here), float(np.max(apart)))

    def fact(self, name, holds, here, *, because=""):
        """Enter a statement that holds or does not, and what was found, in words."""
        self._enter(self._claim(name), bool(holds), because, here, None)

    def machine(self, name, here):
        """Enter a time or size of this machine: no verdict but that it depends on the machine."""
        claim = self._claim(name)
        self.entries[name] = Entry(claim, here, None, "machine", "")

    def _claim(self, name):
        if name not in claims():
            raise KeyError(f"no claim {name!r}; there are {', '.join(claims())}")
        return claims()[name]

    def _enter(self, claim, agrees, because, here, difference):
        if agrees == bool(because):
            problem = f"agrees, but a reason is given: {because}" if agrees else f"differs without a reason: {here}"
            raise AssertionError(f"claim {claim.id!r} {problem}")
        self.entries[claim.id] = Entry(claim, here, difference, "reproduced" if agrees else "differs", because)

    def close(self):
        """Check that every claim has an entry, and return how many there are of each verdict.

        Errors: LookupError that names the claims without one.
        """
        if missing := [name for name in claims() if name not in self.entries]:
            raise LookupError(f"claims without a live counterpart: {', '.join(missing)}")
        return {verdict: sum(e.verdict == verdict for e in self.entries.values()) for verdict in VERDICTS}

    def rows(self, *verdicts, prefix=""):
        """Rows of a table: statement, recorded, here, verdict with difference and tolerance; in the order of the sources."""
        entries = [self.entries[name] for name in claims() if name.startswith(prefix)]
        return [_row(e) for e in entries if e.verdict in verdicts]


def _row(entry):
    claim = entry.claim
    old = "; ".join(_shown(figure) for figure in claim.figures.values())
    tolerance = f"{claim.atol:g}" if claim.atol else f"{100 * claim.rtol:g} %" if claim.rtol else ""
    difference = "" if entry.difference is None else f", {entry.difference:.0e}" + (f" ({tolerance})" if tolerance else "")
    return [claim.what, old, entry.here, entry.verdict + difference + (f": {entry.reason}" if entry.reason else "")]


def _shown(figure):
    if isinstance(figure, list):
        return ", ".join(map(_shown, figure))
    return f"{figure:.16g}" if isinstance(figure, float) else str(figure)

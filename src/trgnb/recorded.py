"""Figures that the source pages recorded, for comparison with those of this build."""

import tomllib
from copy import copy
from functools import cache
from importlib.resources import files


@cache
def _table():
    return tomllib.loads(files("trgnb").joinpath("recorded.toml").read_text())


def recorded(claim, key=None):
    """The recorded figure of a claim: a number, or a list of them.

    claim: name of the claim, such as "staging.lnz.0.30".  key: which figure, where a claim has several.
    Errors: KeyError that lists what there is.
    """
    if claim not in _table():
        raise KeyError(f"no recorded claim {claim!r}; there are {', '.join(_table())}")
    figures = {name: figure for name, figure in _table()[claim].items() if name != "system"}
    if key is None and len(figures) == 1:
        (key,) = figures
    if key not in figures:
        raise KeyError(f"claim {claim!r} has the figures {', '.join(figures)}: give one as key, not {key!r}")
    return copy(figures[key])

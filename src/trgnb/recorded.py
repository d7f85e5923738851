"""What the source pages state, for comparison with this build: their claims and the figures recorded with them."""

import tomllib
from copy import copy
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Claim(NamedTuple):
    """A checkable statement of a source page.

    kind: value, error, grad, text, property, count or machine.  system: who produced it.  what: in words.
    figures: as recorded, by name.  atol, rtol: how near another run has to come, 0 where nothing is said.
    """

    id: str
    kind: str
    system: str
    what: str
    figures: dict
    atol: float
    rtol: float


_ABOUT = {"kind": "", "system": "", "what": "", "atol": 0.0, "rtol": 0.0}


@cache
def claims():
    """All claims by their ids, in the order of the sources."""
    table = tomllib.loads(files("trgnb").joinpath("recorded.toml").read_text())
    return {
        name: Claim(
            id=name,
            **{key: entry.get(key, default) for key, default in _ABOUT.items()},
            figures={key: figure for key, figure in entry.items() if key not in _ABOUT},
        )
        for name, entry in table.items()
    }


def recorded(claim, key=None):
    """The recorded figure of a claim: a number, a text, or a list of them.

    claim: name of the claim, such as "staging.lnz.0.30".  key: which figure, where a claim has several.
    Errors: KeyError that lists what there is.

    >>> trgnb.recorded("staging.lnz.0.30")
    0.790559063800966
    """
    if claim not in claims():
        raise KeyError(f"no recorded claim {claim!r}; there are {', '.join(claims())}")
    figures = claims()[claim].figures
    if key is None and len(figures) == 1:
        (key,) = figures
    if key not in figures:
        raise KeyError(f"claim {claim!r} has the figures {', '.join(figures)}: give one as key, not {key!r}")
    return copy(figures[key])

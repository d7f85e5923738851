"""The numbers gate: numbers that chapters record, and their comparison with the accepted ones.

``pin`` records a number of the running chapter together with its tolerance. After a build, ``read_build``
collects what every chapter pinned and printed, ``read_accepted`` what was accepted before, and ``compare``
says where the two part. ``python -m trgnb.numbers check`` and ``accept`` do so from the command line.

Nothing here needs JAX or the book's tools, so that the gate judges a build without repeating it.
"""

from ._compare import Check, Finding, checks, compare, settle, tally
from ._pin import pin
from ._read import Cell, Chapter, Pin, Printed, read_accepted, read_build, write_accepted

__all__ = [
    "Cell",
    "Chapter",
    "Check",
    "Finding",
    "Pin",
    "Printed",
    "checks",
    "compare",
    "pin",
    "read_accepted",
    "read_build",
    "settle",
    "tally",
    "write_accepted",
]

"""The table that a sweep returns."""

import math
from typing import NamedTuple

import numpy as np

# A longer table is printed by its ends.
_SHOWN, _END = 40, 10


class Row(NamedTuple):
    """One beta of a sweep: ln Z and its derivatives per spin, each with its difference from the exact infinite lattice.

    beta: inverse temperature J / k_B T, J = 1.  lnz: ln Z per spin.  u: energy per spin, minus the derivative of lnz.
    c: specific heat per spin / k_B, NaN where the sweep was not asked for it.
    lnz_error, u_error, c_error: computed minus exact (Onsager); c_error is -inf at the critical point.
    warnings: texts of the warnings of this beta.  failure: text of the error that ended it, its numbers
      being NaN, or an empty text.

    >>> trgnb.sweep([0.3], chi=4, steps=6, method="traced-eager")[0].beta
    0.3
    """

    beta: float
    lnz: float = math.nan
    lnz_error: float = math.nan
    u: float = math.nan
    u_error: float = math.nan
    c: float = math.nan
    c_error: float = math.nan
    warnings: tuple[str, ...] = ()
    failure: str = ""


class Table(tuple):
    """The rows of a sweep, in the order of its betas: a tuple of ``Row`` that also gives columns by name.

    ``table["u"]`` is a column, a float64 array of shape (rows,), an object array for "warnings" and "failure";
    ``table[0]`` is a row, ``table[:5]`` a table, and ``pandas.DataFrame(list(table))`` a data frame.
    Errors: KeyError that lists the columns for another name.

    >>> table = trgnb.sweep([0.3, 0.5], chi=4, steps=6, method="traced-eager")
    >>> table["u"].shape, table[1].beta, len(table.failed)
    ((2,), 0.5, 0)
    """

    __slots__ = ()

    def __getitem__(self, key):
        if isinstance(key, str):
            if key not in Row._fields:
                raise KeyError(f"no column {key!r}; there are {', '.join(Row._fields)}")
            kind = object if key in ("warnings", "failure") else np.float64
            return np.fromiter((getattr(row, key) for row in self), kind, len(self))
        found = super().__getitem__(key)
        return Table(found) if isinstance(key, slice) else found

    @property
    def failed(self):
        """The rows that failed, a table."""
        return Table(row for row in self if row.failure)

    def __repr__(self):
        lines = self._cells()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        # Numbers stand on the right, the note, which is text, on the left.
        align = [str.ljust if title == "note" else str.rjust for title in lines[0]]
        return "\n".join(
            "  ".join(put(cell, width) for put, cell, width in zip(align, line, widths, strict=True)).rstrip() for line in lines
        )

    def _repr_markdown_(self):
        header, *rows = self._cells()
        rule = ["---" if title == "note" else "---:" for title in header]
        lines = [" | ".join(cell.replace("|", "\\|") for cell in line) for line in (header, rule, *rows)]
        return "\n".join(f"| {line} |" for line in lines)

    def _cells(self):
        """Lines of equally many texts, the first of them the titles; columns without content are left out."""
        columns = {
            "beta": lambda row: f"{row.beta:.10g}",
            "ln Z": lambda row: f"{row.lnz:.10f}",
            "error of ln Z": lambda row: f"{row.lnz_error:.1e}",
            "u": lambda row: f"{row.u:.10f}",
            "error of u": lambda row: f"{row.u_error:.1e}",
        }
        if any(not math.isnan(row.c) for row in self):
            columns |= {"c": lambda row: f"{row.c:.10f}", "error of c": lambda row: f"{row.c_error:.1e}"}
        if any(row.failure or row.warnings for row in self):
            columns |= {"note": lambda row: "; ".join(filter(None, (row.failure, *row.warnings))).replace("\n", " ")}
        lines = [[text(row) for text in columns.values()] for row in self]
        if len(lines) > _SHOWN:
            lines[_END:-_END] = [["..."] * len(columns)]
        return [list(columns), *lines]

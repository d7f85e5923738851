"""Docstrings on the API page: their plain text as reStructuredText.

The package's docstrings are written to be read as they are. A line such as ``beta: inverse temperature`` starts a
field, as does ``chi: ...`` after two spaces in the same line; the lines that follow belong to it. Such fields become
a list, and ``Errors:``, ``Source:`` and the like paragraphs. In all text but literals the characters that
reStructuredText would take for markup are escaped: ``|T|`` is a norm.
"""

from __future__ import annotations

import re
import sys
from itertools import groupby

from sphinx.pycode import ModuleAnalyzer

# "beta:", "outputs, inputs:", "size and errors:" or "Returns", at the start of a line or after two spaces.
FIELD = re.compile(r"(?:\A|\n|(?<=  ))([A-Za-z]\w*(?:(?:, | and )[a-z]\w*)*(?=: )|Returns(?= )):? +")
LITERAL = re.compile(r"(``.+?``+)", re.DOTALL)
MARKUP = re.compile(r"[\\*|`]|_(?!\w)")


def escape(text: str) -> str:
    """Text with its characters taken literally, except in ``double backquotes``."""
    parts = LITERAL.split(text)
    return "".join(part if n % 2 else MARKUP.sub(lambda m: "\\" + m[0], part) for n, part in enumerate(parts))


def paragraph(lines: list[str]) -> list[str]:
    """A paragraph of plain text, with the fields in it set apart."""
    before, *fields = FIELD.split("\n".join(lines))
    out = [*escape(before).splitlines(), ""] if before else []
    for names, text in zip(fields[::2], fields[1::2], strict=True):
        first, *rest = escape(text).strip().splitlines()
        if names[0].isupper():
            out += ["", f"*{names}:* {first}", *map(str.strip, rest), ""]
        else:
            names = re.sub(r"\b(?!and\b|errors\b)\w+", r"``\g<0>``", names)
            out += [f"- {names}: {first}", *(f"  {line.strip()}" for line in rest)]
    return [*out, ""]


def as_rest(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText; examples and indented blocks stay as they are."""
    out = []
    for blank, block in groupby(lines, lambda line: not line.strip()):
        block = list(block)
        out += block if blank or block[0].startswith((" ", ">>>")) else paragraph(block)
    return out


def data_docstring(name: str, value) -> list[str] | None:
    """The docstring below the assignment of a value, which autodoc does not find where the value is re-exported."""
    for module in [m for m in sys.modules if m.partition(".")[0] == "trgnb"]:
        analyzer = ModuleAnalyzer.for_module(module)
        key = "", name.rpartition(".")[2]
        if key in analyzer.find_attr_docs() and getattr(sys.modules[module], key[1], None) is value:
            return analyzer.attr_docs[key]
    return None


def process(app, what, name, obj, options, lines):
    """Rewrite a docstring of the package in place."""
    if name.partition(".")[0] == "trgnb":
        lines[:] = as_rest((what == "data" and data_docstring(name, obj)) or lines)


def setup(app):
    """Register the change of docstrings."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", process)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Chapters are notebooks: how they run in the build, and the executed notebook to download.

- Kernels started by the build see ``TRGNB_BOOK=1``: pins then record their value for the page. They run
  with an IPython profile of the build's own, so that nobody's start-up files reach the pages.
- Each page offers its executed notebook in the theme's download menu. In that copy the roles that quote
  a recorded number are replaced by the number, so that the notebook reads well by itself.
- What a cell prints is joined for the page in a copy of its outputs. myst-nb joins it in place, and a stream
  that the kernel sent in pieces would then be in the saved notebook once more than it was printed.
- When a cell fails, the error is kept in ``reports/`` of the output folder.
"""

from __future__ import annotations

import copy
import json
import os
import posixpath
import re
from pathlib import Path

import nbformat
from myst_nb.core import render
from myst_nb.core.execute.base import ExecutionError
from myst_nb.core.utils import coalesce_streams
from myst_nb.core.variables import format_plain_text
from sphinx.util import logging

logger = logging.getLogger(__name__)

GLUE_TEXT = re.compile(r"\{glue:text\}`([^`]+)`")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Quotes:
    """The values that {glue:text} roles quote, read from the recorded numbers of the executed chapters."""

    def __init__(self, executed: Path):
        self.executed = executed
        self.chapters: dict[str, dict] = {}

    def value(self, docname: str, key: str) -> str:
        """The recorded plain text of ``key`` in a chapter; KeyError when there is none."""
        if docname not in self.chapters:
            path = self.executed / f"{docname}.glue.json"
            self.chapters[docname] = json.loads(path.read_text("utf8")) if path.exists() else {}
        return self.chapters[docname][key]["data"]["text/plain"]

    def fill(self, text: str, docname: str) -> str:
        """``text`` of a chapter with each {glue:text}`doc::key:format` replaced by the formatted value."""

        def number(match: re.Match) -> str:
            # As myst-nb reads it: the format follows the last colon.
            key, spec = match[1].rsplit(":", 1) if ":" in match[1] else (match[1], "s")
            doc, _, name = key.rpartition("::")
            source = posixpath.normpath(f"{posixpath.dirname(docname)}/{doc.removesuffix('.md')}") if doc else docname
            try:
                return format_plain_text(self.value(source, name), spec)
            except (KeyError, ValueError):
                logger.warning("no recorded number for %s in the notebook of %s", match[0], docname)
                return match[0]

        return GLUE_TEXT.sub(number, text)


def write_notebook(executed: Path, docname: str, target: Path) -> None:
    """Copy the executed notebook of a chapter to ``target``, quoted numbers filled in."""
    quotes = Quotes(executed)
    notebook = nbformat.read(executed / f"{docname}.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = quotes.fill(cell.source, docname)
        for output in cell.get("outputs", []):
            if "text/markdown" in output.get("data", {}):
                output.data["text/markdown"] = quotes.fill(output.data["text/markdown"], docname)
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)


def add_download(app, pagename, templatename, context, doctree):
    """Write the notebook beside the page's source; the theme links it as ``ipynb_source``."""
    executed = Path(app.outdir).parent / "jupyter_execute"
    if doctree is not None and (executed / f"{pagename}.ipynb").exists():
        context["ipynb_source"] = f"{pagename}.ipynb"
        write_notebook(executed, pagename, Path(app.outdir) / "_sources" / f"{pagename}.ipynb")


def keep_report(app, exception):
    """After a failed build: the failing cell and its traceback, as plain text, in ``reports/``."""
    if not isinstance(exception, ExecutionError):
        return
    path = Path(str(exception))
    report = Path(app.outdir) / "reports" / f"{path.stem}.err.log"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(f"{path}\n\n{ANSI.sub('', str(exception.__cause__))}\n", encoding="utf8")


def prepare_kernels(app):
    """Set what the kernels of this build inherit."""
    os.environ["TRGNB_BOOK"] = "1"
    ipython = Path(app.outdir).parent / "ipython"
    config = ipython / "profile_default" / "ipython_kernel_config.py"
    config.parent.mkdir(parents=True, exist_ok=True)
    # Each kernel would warn that its loopback connection is not encrypted.
    config.write_text('c = get_config()\nc.IPKernelApp.log_level = "ERROR"\n', encoding="utf8")
    os.environ["IPYTHONDIR"] = str(ipython)


def joined_copy(join):
    """``join``, a function of a list of outputs, made to leave its argument alone."""
    return lambda outputs: join(copy.deepcopy(outputs))


def setup(app):
    """Connect the steps above."""
    render.coalesce_streams = joined_copy(coalesce_streams)
    app.connect("builder-inited", prepare_kernels)
    app.connect("html-page-context", add_download)
    app.connect("build-finished", keep_report)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

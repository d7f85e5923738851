"""Buttons that open a chapter on Binder or Colab, from the day the repository has an address.

The address is ``repository.url`` of _config.yml. While it is empty there are no buttons, and the build writes
what it always wrote. With an address each chapter has two links, made for the two kinds of file:

- Binder opens the chapter's source on the branch ``main``; ``binder/`` says what is installed there.
- Colab cannot read that source. It opens the executed notebook on the branch ``notebooks``, which holds what the
  build writes to ``_build/notebooks``. The first cell installs the package, which Colab does not have.

The theme's own buttons do not fit: they take the same branch and the same file for both.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from sphinx.errors import ConfigError

SOURCES = "main"  # branches, as in .github/workflows/book.yml
NOTEBOOKS = "notebooks"
ADDRESS = re.compile(r"https://github\.com/([A-Za-z0-9-]+/[A-Za-z0-9._-]+)(?<!\.git)")


def repository(address: str | None) -> str:
    """The ``ORG/REPO`` of the repository's address, or "" without one; ConfigError when it is something else."""
    if not address:
        return ""
    if match := ADDRESS.fullmatch(str(address)):
        return match[1]
    raise ConfigError(
        f"repository.url of _config.yml is {address!r}. It can be empty (no buttons for Binder and Colab), or "
        "https://github.com/ORG/REPO with nothing after the name: no .git, no slash, no branch. Both services "
        "are asked for a repository on GitHub."
    )


def buttons(repo: str, source: str, notebook: str) -> list[dict]:
    """The two links to a chapter, given its files on the two branches."""
    binder = f"https://mybinder.org/v2/gh/{repo}/{SOURCES}?urlpath=lab/tree/{source}"
    colab = f"https://colab.research.google.com/github/{repo}/blob/{NOTEBOOKS}/{notebook}"
    places = [("Binder", "logo_binder.svg", binder), ("Colab", "logo_colab.png", colab)]
    return [
        {"type": "link", "text": name, "tooltip": f"Open in {name}", "icon": f"_static/images/{icon}", "url": url}
        for name, icon, url in places
    ]


def write_notebook(downloaded: Path, address: str, target: Path) -> None:
    """Copy the notebook that the page offers, with a first cell that installs the package."""
    notebook = nbformat.read(downloaded, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(f"%pip install -q git+{address}", id="install"))
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)


def add_buttons(app, pagename, templatename, context, doctree):
    """Put the links of a chapter into the header, before the download menu."""
    address = app.config.html_theme_options.get("repository_url")
    notebook = context.get("ipynb_source")  # from executed_notebooks.py, on chapters only
    if address and notebook:
        out, source = Path(app.outdir), Path(app.env.doc2path(pagename)).relative_to(app.srcdir).as_posix()
        write_notebook(out / "_sources" / notebook, address, out.parent / NOTEBOOKS / notebook)
        menu = {"type": "group", "label": "launch-buttons", "icon": "fas fa-rocket"}
        menu |= {"tooltip": "Run on Binder or Colab", "buttons": buttons(repository(address), source, notebook)}
        context["header_buttons"].insert(0, menu)


def check_address(app, config):
    """Stop the build at a wrong address."""
    repository(config.html_theme_options.get("repository_url"))


def setup(app):
    """Check the address before the theme takes it apart; add the buttons after the theme has added its own."""
    app.connect("config-inited", check_address, priority=1)
    app.connect("html-page-context", add_buttons, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

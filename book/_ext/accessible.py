"""Small repairs of the pages' HTML for keyboards and screen readers; the browser tests hold them in place.

- An entry of the bibliography is an item of its list. docutils gives it a role that ARIA has withdrawn.
- A cell of a table's head that says nothing, above a column of names, is no heading.
- A folded cell is called by what it says ("Show code cell source"); myst-nb hides that behind one label for all.
- Formulas that scroll can be reached with the Tab key (``scrolling.js``).
- The title above the list of chapters is in a landmark (``_templates/navbar-logo.html``).
"""

from __future__ import annotations

from docutils import nodes
from myst_nb import sphinx_ as myst_nb
from sphinx.writers.html5 import HTML5Translator


def rewritten(visitor, old: str, new: str):
    """``visitor`` with ``old`` replaced in what it writes; an error when it no longer writes that."""

    def visit(translator, node):
        start = len(translator.body)
        visitor(translator, node)
        text = "".join(translator.body[start:])
        if old not in text:
            raise ValueError(f"{visitor.__name__} writes {text!r} without {old!r}: see what accessible.py repairs")
        translator.body[start:] = [text.replace(old, new)]

    return visit


def visit_entry(translator, node):
    """A cell of a table: ``td`` instead of ``th`` when there is nothing in it."""
    start = len(translator.body)
    HTML5Translator.visit_entry(translator, node)
    if not node.astext().strip():
        translator.body[start:] = [text.replace("<th", "<td") for text in translator.body[start:]]
        translator.context[-1] = translator.context[-1].replace("</th", "</td")


def setup(app):
    """Put the repaired visitors in place of the original ones, and load the script."""
    entry = rewritten(HTML5Translator.visit_citation, 'role="doc-biblioentry"', 'role="listitem"')
    app.add_node(nodes.citation, override=True, html=(entry, HTML5Translator.depart_citation))
    app.add_node(nodes.entry, override=True, html=(visit_entry, HTML5Translator.depart_entry))
    folded = rewritten(myst_nb.visit_HideCellInput, ' aria-label="Toggle hidden content"', "")
    app.add_node(myst_nb.HideCodeCellNode, override=True, html=(folded, myst_nb.depart_HideCellInput))
    app.add_js_file("scrolling.js", loading_method="defer", priority=802)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

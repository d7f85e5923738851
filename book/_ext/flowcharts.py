"""Flowcharts in the mermaid language, drawn in the reader's browser by the vendored copy of mermaid.

A fenced ``mermaid`` block, in a chapter or in a cell's Markdown output, becomes ``<pre class="mermaid">``.
Pages that have one load mermaid and ``flowcharts.js``, which draws them for the light or the dark theme.
Both are classic scripts: browsers refuse to import modules from ``file://``.

Options of the directive: ``caption`` and ``name`` make it a numbered figure, ``alt`` describes it to people
who cannot see it.
"""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective


class flowchart(nodes.General, nodes.Element):
    """One flowchart: ``code`` in the mermaid language, ``alt`` in words."""


class Mermaid(SphinxDirective):
    """The ``mermaid`` directive."""

    has_content = True
    option_spec = {"alt": directives.unchanged, "caption": directives.unchanged, "name": directives.unchanged}

    def run(self):
        node = flowchart(code="\n".join(self.content), alt=self.options.get("alt", ""))
        self.set_source_info(node)
        if "caption" not in self.options:
            self.add_name(node)
            return [node]
        text, messages = self.parse_inline(self.options["caption"])
        caption = nodes.caption("", "", *text)
        figure = nodes.figure("", node, caption)
        self.set_source_info(figure)
        self.set_source_info(caption)
        self.add_name(figure)
        return [figure, *messages]


def visit_html(translator, node):
    """The source as text, to be replaced by the drawing: it is what a reader without JavaScript gets."""
    attributes = {"role": "img", "aria-label": node["alt"]} if node["alt"] else {}
    translator.body.append(translator.starttag(node, "pre", "", CLASS="mermaid", **attributes))
    translator.body.append(translator.encode(node["code"]) + "</pre>\n")
    raise nodes.SkipNode


def add_scripts(app, pagename, templatename, context, doctree):
    """Load the two scripts on pages with a flowchart only: mermaid is large."""
    if doctree is not None and doctree.next_node(flowchart) is not None:
        app.add_js_file("vendor/mermaid/mermaid.min.js", loading_method="defer", priority=800)
        app.add_js_file("flowcharts.js", loading_method="defer", priority=801)


def setup(app):
    """Register the node, the directive and the scripts."""
    app.add_node(flowchart, html=(visit_html, None))
    app.add_directive("mermaid", Mermaid)
    app.connect("html-page-context", add_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

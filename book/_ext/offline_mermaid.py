"""Flowcharts without a network: sphinxcontrib-mermaid on the vendored copy of mermaid.

The extension loads mermaid as an ES module. A browser refuses to import a module over ``file://``, and the
one-file build of mermaid is a classic script without exports. So the file is loaded as a classic script,
which sets ``globalThis.mermaid``, and what the extension imports is a one-line ``data:`` module that hands
that object on. Both scripts are deferred, so they run in this order.

Two names of sphinxcontrib-mermaid used here are private: its version is pinned exactly.
"""

from __future__ import annotations

from sphinxcontrib import mermaid as upstream

SCRIPT = "vendor/mermaid/mermaid.min.js"
MODULE = "data:text/javascript,export default globalThis.mermaid"

_install_js = upstream.install_js
_resolve_local_url = upstream._resolve_local_url


def resolve_local_url(url, context):
    """The URL to import: a ``data:`` URL is one already."""
    return url if url.startswith("data:") else _resolve_local_url(url, context)


def install_js(app, pagename, templatename, context, doctree):
    """Add the scripts to pages that have a flowchart, and to no other page."""
    if doctree is None or doctree.next_node(upstream.mermaid) is None:
        return
    priority = app.config.mermaid_js_priority
    app.add_js_file(SCRIPT, priority=priority - 1, loading_method="defer")
    _install_js(app, pagename, templatename, context, doctree)


def setup(app):
    """Load sphinxcontrib-mermaid with the two functions above in place of its own."""
    upstream.install_js = install_js
    upstream._resolve_local_url = resolve_local_url
    app.setup_extension("sphinxcontrib.mermaid")
    app.config.mermaid_use_local = MODULE
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

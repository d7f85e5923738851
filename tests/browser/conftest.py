"""The built book, a browser, and the two ways to open the book: as files and from a server."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chapters() -> list[str]:
    """The chapters of the table of contents, the first page included."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf8"))
    return [toc["root"], *(chapter["file"] for chapter in toc["chapters"])]


@pytest.fixture(scope="session")
def html() -> Path:
    """The folder of the built book."""
    if not (HTML / "index.html").exists():
        pytest.fail("There is no book in _build/html: run `make book` first.")
    return HTML


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; without one the test is skipped, or fails when TRGNB_REQUIRE_BROWSER=1."""
    path = os.environ.get("TRGNB_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        reason = "no Chromium here (Debian: apt install chromium; elsewhere set TRGNB_CHROMIUM to its path)"
        if os.environ.get("TRGNB_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work for root.
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if root else [])
        yield chromium
        chromium.close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without writing a line per request."""

    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def served(html):
    """The address of a local server of the book."""
    handler = functools.partial(QuietHandler, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(params=["file", "http"])
def base(request, html) -> str:
    """The book's address, once as files and once from a server."""
    return html.as_uri() if request.param == "file" else request.getfixturevalue("served")

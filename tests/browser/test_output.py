"""The built book as files: links, and the notebooks that chapters offer. No browser needed."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup
from conftest import chapters


def targets(soup):
    """The anchors that a page has."""
    return {tag.get("id") or tag.get("name") for tag in soup.find_all(id=True) + soup.find_all("a", attrs={"name": True})}


def broken_links(html, pages):
    """Links within the book, from ``pages``, whose file or anchor does not exist."""
    soups = {}

    def parsed(path):
        if path not in soups:
            soups[path] = BeautifulSoup(path.read_text("utf8"), "html.parser")
        return soups[path]

    broken = []
    for page in pages:
        path = (html / page).resolve()
        for tag in parsed(path).find_all(["a", "link", "script", "img"]):
            address = tag.get("href") or tag.get("src")
            parts = urlsplit(address or "")
            if not address or parts.scheme or parts.netloc or address == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                broken.append(f"{page}: {address}")
            elif parts.fragment and target.suffix == ".html":
                if unquote(parts.fragment) not in targets(parsed(target)):
                    broken.append(f"{page}: {address} (no such place on that page)")
    return broken


def test_links_within_the_book_lead_somewhere(html):
    assert broken_links(html, ["index.html", "search.html", *(f"{chapter}.html" for chapter in chapters())]) == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html"></a><a href="#x"></a><a href="#y"></a><p id="y">', encoding="utf8")
    assert broken_links(tmp_path, ["a.html"]) == ["a.html: b.html", "a.html: #x (no such place on that page)"]


def notebook(html, chapter):
    return html / "_sources" / f"{chapter}.ipynb"


@pytest.mark.parametrize("chapter", chapters())
def test_download_is_an_executed_notebook(chapter, html):
    found = nbformat.read(notebook(html, chapter), as_version=4)
    nbformat.validate(found)
    code = [cell for cell in found.cells if cell.cell_type == "code"]
    assert code and all(cell.execution_count for cell in code)
    assert any(cell.outputs for cell in code)
    text = "".join(cell.source for cell in found.cells if cell.cell_type == "markdown")
    assert "{glue:text}" not in text, "numbers are filled in"


@pytest.mark.parametrize("chapter", chapters())
def test_download_is_in_the_menu(chapter, html):
    page = html / f"{chapter}.html"
    menu = BeautifulSoup(page.read_text("utf8"), "html.parser").select(".dropdown-download-buttons a[href]")
    assert notebook(html, chapter).resolve() in [(page.parent / link["href"]).resolve() for link in menu]


def run_alone(path):
    """Run a notebook in its folder, outside the book's build, as a reader would."""
    script = (
        f"import nbclient, nbformat; book = nbformat.read({path.name!r}, as_version=4); "
        "nbclient.NotebookClient(book, timeout=600, kernel_name='python3').execute()"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("TRGNB_BOOK", "PYTHONPATH")}
    environment["IPYTHONDIR"] = str(path.parent / "ipython")
    return subprocess.run([sys.executable, "-c", script], cwd=path.parent, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def runs(html, tmp_path_factory):
    """The notebooks of all chapters, each run in an empty folder, two at a time."""

    def run(chapter):
        path = tmp_path_factory.mktemp("alone") / "chapter.ipynb"
        path.write_bytes(notebook(html, chapter).read_bytes())
        return run_alone(path)

    with ThreadPoolExecutor(2) as pool:
        yield {chapter: pool.submit(run, chapter) for chapter in chapters()}


@pytest.mark.parametrize("chapter", chapters())
def test_download_runs_alone(chapter, runs):
    result = runs[chapter].result()
    assert result.returncode == 0, result.stderr[-3000:]

"""The buttons for Binder and Colab: a small book built with and without an address, and what Binder installs."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from sphinx.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
BINDER = ROOT / "binder"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text("utf8"))
# What a public address would be, and one that people paste from the browser.
ADDRESS, PASTED = "https://github.com/org/some.repo", "https://github.com/org/some.repo/tree/main"

CHAPTERS = ["book/index", "book/one-more"]
CHAPTER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst, format_version: 0.13}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# A chapter

```{code-cell} python3
print(6 * 7)
```
"""


@pytest.fixture
def launch(monkeypatch):
    """The module book/_ext/launch.py."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    import launch

    yield launch
    sys.modules.pop("launch")


# --- a book of two chapters ------------------------------------------------------------------------------------


def build(root, address):
    """Build the book's configuration and tools around two short chapters, as `make book` does."""
    for name in ("book/_ext", "book/_make", "book/_static"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "book" / "references.bib", root / "book")
    config = (ROOT / "_config.yml").read_text("utf8")
    config, count = re.subn(r"(?m)^repository:\n  url: .*$", f'repository:\n  url: "{address}"', config)
    assert count == 1, "_config.yml has no line 'url:' below 'repository:'"
    (root / "_config.yml").write_text(config, encoding="utf8")
    toc = f"format: jb-book\nroot: {CHAPTERS[0]}\nchapters:\n- file: {CHAPTERS[1]}\n"
    (root / "_toc.yml").write_text(toc, encoding="utf8")
    for chapter in CHAPTERS:
        (root / f"{chapter}.md").write_text(CHAPTER, encoding="utf8")
    command = [sys.executable, root / "book" / "_make" / "build.py"]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """For each address the folder of the book and how its build went."""
    roots = {address: tmp_path_factory.mktemp("book") for address in (ADDRESS, "", PASTED)}
    with ThreadPoolExecutor(2) as pool:
        builds = {address: pool.submit(build, root, address) for address, root in roots.items()}
        return {address: (root, builds[address].result()) for address, root in roots.items()}


def built(books, address):
    root, done = books[address]
    assert done.returncode == 0, done.stdout[-4000:]
    return root


def wrong(links, address, chapter, root):
    """What is wrong with the links of a chapter, when the build in `root` is published as the workflow does it."""
    repo = address.removeprefix("https://github.com/")
    [branch], published = WORKFLOW[True]["push"]["branches"], "notebooks"  # YAML reads `on` as true
    starts = {
        f"https://mybinder.org/v2/gh/{repo}/{branch}?urlpath=lab/tree/": root,
        f"https://colab.research.google.com/github/{repo}/blob/{published}/": root / "_build" / "notebooks",
    }
    found = []
    for start, folder in starts.items():
        paths = [link.removeprefix(start) for link in links if link.startswith(start)]
        if len(paths) != 1:
            found.append(f"{len(paths)} links start with {start}")
        found += [f"{path} is not there" for path in paths if not (folder / path).is_file()]
        found += [f"{path} is another chapter" for path in paths if path.rpartition(".")[0] != chapter]
    return found + [f"{link} leads elsewhere" for link in links if not link.startswith(tuple(starts))]


def launch_links(root, chapter):
    page = BeautifulSoup((root / "_build" / "html" / f"{chapter}.html").read_text("utf8"), "html.parser")
    return [link["href"] for link in page.select(".article-header-buttons .dropdown-launch-buttons a[href]")]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_links_of_a_chapter_lead_to_its_files(books, chapter):
    root = built(books, ADDRESS)
    links = launch_links(root, chapter)
    assert len(links) == 2 and wrong(links, ADDRESS, chapter, root) == []


@pytest.mark.parametrize(
    "old, new",
    [
        ("lab/tree/book", "lab/tree"),
        ("index.md", "index.ipynb"),
        ("index.ipynb", "index.md"),
        ("index", "one-more"),
        ("/blob/notebooks", "/blob/main"),
        ("some.repo/main", "some.repo/master"),
        ("org/some.repo", "org/other"),
        ("colab.research", "colab"),
    ],
)
def test_a_wrong_link_is_found(books, old, new):
    root = built(books, ADDRESS)
    links = launch_links(root, "book/index")
    faulty = [link.replace(old, new) for link in links]
    assert faulty != links and wrong(faulty, ADDRESS, "book/index", root)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_notebook_for_colab_installs_the_package_first(books, chapter):
    build = built(books, ADDRESS) / "_build"
    paths = (build / folder / f"{chapter}.ipynb" for folder in ("notebooks", "html/_sources"))
    colab, offered = (nbformat.read(path, as_version=4) for path in paths)
    nbformat.validate(colab)
    first, *others = colab.cells
    assert (first.cell_type, first.source) == ("code", f"%pip install -q git+{ADDRESS}")
    assert others == offered.cells and others[-1].outputs[0].text == "42\n"


def test_icons_are_files_of_the_book(books):
    html = built(books, ADDRESS) / "_build" / "html"
    page = BeautifulSoup((html / "book" / "index.html").read_text("utf8"), "html.parser")
    icons = [image["src"].partition("?")[0] for image in page.select(".dropdown-launch-buttons img")]
    assert len(icons) == 2 and all((html / "book" / icon).is_file() for icon in icons)


def test_without_an_address_there_is_nothing(books):
    root = built(books, "")
    for chapter in CHAPTERS:
        page = (root / "_build" / "html" / f"{chapter}.html").read_text("utf8")
        assert "launch-buttons" not in page and not re.search(r"mybinder|colab\.research|github\.com", page)
    assert not (root / "_build" / "notebooks").exists()


def test_a_wrong_address_stops_the_build_and_says_what_is_allowed(books):
    root, done = books[PASTED]
    assert done.returncode != 0 and f"repository.url of _config.yml is '{PASTED}'" in done.stdout
    assert "https://github.com/ORG/REPO" in done.stdout and "Traceback" not in done.stdout
    assert "reading sources" not in done.stdout and "reading sources" in books[""][1].stdout, "before any chapter is run"
    assert not list((root / "_build").rglob("*.html"))


@pytest.mark.parametrize(
    "address",
    [
        "http://github.com/org/repo",
        "https://github.com/org",
        "https://github.com/org/repo/",
        "https://github.com/org/repo.git",
        "https://gitlab.com/org/repo",
        "https://github.com/org/re po",
        "git@github.com:org/repo",
        "org/repo",
        7,
    ],
)
def test_what_is_no_address(launch, address):
    with pytest.raises(ConfigError, match=r"https://github.com/ORG/REPO"):
        launch.repository(address)


def test_what_is_an_address(launch):
    assert launch.repository("https://github.com/an-org/a_repo.py") == "an-org/a_repo.py"
    assert launch.repository("") == launch.repository(None) == ""


def test_workflow_publishes_the_notebooks_before_the_pages(launch):
    jobs = WORKFLOW["jobs"]
    uploads = [step["with"] for step in jobs["test"]["steps"] if "upload-artifact" in step.get("uses", "")]
    commands = "\n".join(step.get("run", "") for step in jobs["notebooks"]["steps"])
    assert [upload["path"] for upload in uploads if upload["name"] == "notebooks"] == [f"_build/{launch.NOTEBOOKS}"]
    assert f"git switch --orphan {launch.NOTEBOOKS}\n" in commands
    assert f"git push --force origin {launch.NOTEBOOKS}\n" in commands
    assert "notebooks" in jobs["publish"]["needs"]
    writing = [name for name, job in jobs.items() if job.get("permissions", {}).get("contents") == "write"]
    assert writing == ["notebooks"] and WORKFLOW["permissions"] == {"contents": "read"}


# --- what Binder installs --------------------------------------------------------------------------------------


def test_binder_installs_the_lock():
    """Alone: beside hashes pip installs nothing that has none."""
    lines = [line.partition("#")[0].strip() for line in (BINDER / "requirements.txt").read_text("utf8").splitlines()]
    [line] = filter(None, lines)
    option, name = line.split()
    assert option == "-r" and (BINDER / name).resolve() == ROOT / "requirements.txt"
    lock = (ROOT / "requirements.txt").read_text("utf8")
    needed = ("jupyterlab", "jupytext", "ipykernel", "setuptools")
    assert all(re.search(rf"(?m)^{package}==", lock) for package in needed)


def test_binder_has_the_python_of_the_published_book():
    name, version = (BINDER / "runtime.txt").read_text("utf8").strip().split("-")
    test = WORKFLOW["jobs"]["test"]
    conditions = " ".join(step.get("if", "") for step in test["steps"])
    [published] = set(re.findall(r"matrix\.python == '([\d.]+)'", conditions))
    assert name == "python" and version == published and version in test["strategy"]["matrix"]["python"]


def test_binder_installs_the_package_and_opens_chapters_as_notebooks(tmp_path):
    """postBuild itself, in a copy of the sources and without a package index, into a folder of its own."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "binder", "src"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
    scripts = Path(sys.executable).parent
    env = os.environ | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_TARGET": str(tmp_path / "site"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "jupyter"),
    }
    done = subprocess.run(["./binder/postBuild"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    installed = [path.name for path in (tmp_path / "site").glob("*.dist-info")]
    assert [name.partition("-")[0] for name in installed] == ["trgnb"]
    settings = json.loads((tmp_path / "jupyter" / "labconfig" / "default_setting_overrides.json").read_text("utf8"))
    assert settings["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"]["markdown"] == "Jupytext Notebook"


# --- chapters where only the package is installed --------------------------------------------------------------

# The book's tools, of which Colab has none.
TOOLS = ["myst_nb", "myst_parser", "jupyter_book", "sphinx", "docutils", "jupytext", "jupyter_cache"]


def test_without_the_books_tools_numbers_are_printed():
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({TOOLS}))  # None: importing one is an ImportError\n"
        "import trgnb\nfrom trgnb import show\n"
        "show.use_style()\n"
        "trgnb.pin('toy.x', 0.25, atol=0)\n"
        "print(show.table(['n'], [['1']], caption='Steps.', name='steps').data)\n"
        "print(show.flowchart(['a --> b'], caption='c', name='n', alt='a, then b').data)\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "TRGNB_BOOK"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "toy.x = 0.25  (rtol 0, atol 0)\n**Steps.**\n\n| n |\n" in done.stdout
    assert "```mermaid\nflowchart TB\n" in done.stdout


def imports(source):
    """The packages that code imports, without those whose absence it expects."""
    tree = ast.parse(source)
    expected = {inner for node in ast.walk(tree) if isinstance(node, ast.Try) for inner in ast.walk(node)}
    for node in set(ast.walk(tree)) - expected:
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


def code_cells(chapter):
    cells = re.findall(r"(?ms)^```\{code-cell\}[^\n]*\n(.*?)^```", chapter.read_text("utf8"))
    return [re.sub(r"\A(:\w.*\n|---\n(?:.*\n)*?---\n)*", "", cell) for cell in cells]


@pytest.mark.parametrize("chapter", sorted((ROOT / "book").glob("*.md")), ids=lambda path: path.stem)
def test_chapters_import_what_the_package_depends_on(chapter):
    found = {name for cell in code_cells(chapter) for name in imports(re.sub(r"(?m)^%.*$", "", cell))}
    assert {name.lower() for name in found - sys.stdlib_module_names} <= {"trgnb", *PROJECT["dependencies"]}

"""The book's sources, before any build: what a build would not notice or would say unclearly."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
CONFIG = (ROOT / "_config.yml").read_text("utf8")
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text("utf8"))
CHAPTERS = [TOC["root"], *(chapter["file"] for chapter in TOC["chapters"])]
# As many decimals as only a computed number has.
TYPED = re.compile(r"(?<![\d.])\d+\.\d{9,}")


def source(chapter):
    return (ROOT / f"{chapter}.md").read_text("utf8")


def test_chapters_are_the_files_of_the_folder():
    assert sorted(CHAPTERS) == sorted(f"book/{path.stem}" for path in (ROOT / "book").glob("*.md"))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_header_makes_it_a_notebook(chapter):
    """With the kernel alone a chapter is not executed, and says nothing."""
    header = yaml.safe_load(source(chapter).split("---\n")[1])
    representation = header["jupytext"]["text_representation"]
    assert representation["extension"] == ".md" and representation["format_name"] == "myst"
    assert header["kernelspec"]["name"] == "python3"
    assert "```{code-cell}" in source(chapter), "no code cell"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_long_numbers_come_from_pins(chapter):
    assert TYPED.findall(source(chapter)) == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nothing_of_a_page_comes_from_elsewhere(chapter):
    """Links may lead anywhere; images, scripts and frames may not."""
    assert not re.search(r"!\[[^\]]*\]\(\s*https?:|<(img|script|iframe|link)\b[^>]*https?:", source(chapter))


def test_configuration_names_no_other_host():
    """Apart from the repository's address, to which pages only link."""
    address = yaml.safe_load(CONFIG)["repository"]["url"] or ""
    assert not re.search(r"https?://|cdn|jsdelivr|unpkg", re.sub(r"#.*", "", CONFIG).replace(address, ""))


def test_configuration_stops_at_a_failing_cell():
    execute = yaml.safe_load(CONFIG)["execute"]
    assert execute["execute_notebooks"] == "force" and execute["raise_on_error"] is True


def test_styles_and_scripts_name_no_other_host():
    for path in (ROOT / "book" / "_static").glob("*.*"):
        addresses = re.findall(r"https?://[^\s\"')]+", path.read_text("utf8"))
        assert all(address.startswith("http://www.w3.org/") for address in addresses), path.name


def test_lock_is_for_everyone():
    """Hashes for every package, and no address of a package index."""
    lock = (ROOT / "requirements.txt").read_text("utf8")
    assert "://" not in lock and "--index" not in lock and "--find-links" not in lock
    packages = re.findall(r"^[a-z0-9][^ ]*==.*(?:\n +--hash=.*)*", lock, re.MULTILINE)
    assert packages and all("--hash=sha256:" in package for package in packages)


def test_chapters_build_on_earlier_ones():
    """The landing page draws these lines as a flowchart."""
    order = [Path(chapter).name for chapter in CHAPTERS]
    lines = {name: re.search(r"^# .*\n\n\*Builds on (.*)\*$", source(f"book/{name}"), re.MULTILINE) for name in order}
    builds = {name: re.findall(r"\]\(([\w-]+)\.md\)", line[1]) for name, line in lines.items() if line}
    assert {name for name in order if name not in builds} == {"index", "trg", "notation", "api", "environment"}
    for name, below in builds.items():
        assert below and all(order.index(other) < order.index(name) for other in below), name

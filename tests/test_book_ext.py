"""The book's local extension: quoted numbers in the notebook to download."""

import json
import logging
import sys
from pathlib import Path

import nbformat
import pytest
from myst_nb.core.utils import coalesce_streams

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def extension(monkeypatch):
    """The module book/_ext/executed_notebooks.py."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    import executed_notebooks

    yield executed_notebooks
    sys.modules.pop("executed_notebooks")


@pytest.fixture
def executed(tmp_path):
    """An output folder of two executed chapters, one with a recorded number."""
    (tmp_path / "book").mkdir()
    record = {"trg.lnz.0.44": {"data": {"text/plain": "0.92969"}, "metadata": {}}}
    (tmp_path / "book" / "trg.glue.json").write_text(json.dumps(record), encoding="utf8")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("ln Z is {glue:text}`trg.lnz.0.44:.2f`.")])
    nbformat.write(notebook, tmp_path / "book" / "trg.ipynb")
    return tmp_path


@pytest.mark.parametrize(
    "role, text",
    [
        ("{glue:text}`trg.lnz.0.44:.3f`", "0.930"),
        ("{glue:text}`trg.lnz.0.44:.1e`", "9.3e-01"),
        ("{glue:text}`trg.lnz.0.44`", "0.92969"),
        ("{glue:text}`trg.md::trg.lnz.0.44:.2f`", "0.93"),
        ("{glue:text}`../book/trg::trg.lnz.0.44:.2f`", "0.93"),
    ],
)
def test_quoted_number_is_filled_in(extension, executed, role, text):
    assert extension.Quotes(executed).fill(f"a {role} b", "book/trg") == f"a {text} b"


def test_unknown_number_is_left_and_reported(extension, executed, caplog, monkeypatch):
    monkeypatch.setattr(extension, "logger", logging.getLogger("test"))
    role = "{glue:text}`absent:.2f`"
    assert extension.Quotes(executed).fill(role, "book/trg") == role
    assert "no recorded number" in caplog.text


def test_download_has_the_numbers(extension, executed, tmp_path):
    target = tmp_path / "out" / "trg.ipynb"
    extension.write_notebook(executed, "book/trg", target)
    assert nbformat.read(target, as_version=4).cells[0].source == "ln Z is 0.93."


def test_joining_streams_for_the_page_leaves_the_notebook_alone(extension):
    pieces = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("one\n", "two\n")]
    joined = extension.joined_copy(coalesce_streams)(pieces)
    assert [output.text for output in joined] == ["one\ntwo\n"]
    assert [output.text for output in pieces] == ["one\n", "two\n"]

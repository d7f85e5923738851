"""The docstrings: every example holds, every public name has a summary and an example, the API page has them all."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import trgnb
from trgnb import traced

PAGE = (Path(__file__).resolve().parents[1] / "book" / "api.md").read_text("utf8")
# Documented data: a summary will do.
DATA = re.findall(r"^\.\. autodata:: (\S+)", PAGE, re.MULTILINE)
NAMES = re.findall(r"^\.\. auto(?!data)\w+:: ([\w.]+)", PAGE, re.MULTILINE)
FLAGS = doctest.ELLIPSIS
# What the page adds to a docstring, below its directive.
ON_PAGE = dict(re.findall(r"^\.\. auto\w+:: ([\w.]+)[^\n]*\n\n((?:   [^\n]*\n)+)", PAGE, re.MULTILINE))


def find(name):
    """The object of a public name.  trgnb.traced.eager is a function, but trgnb.traced.eager.Eager is in a module."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def documented():
    """All objects with examples by name, public ones by their public names."""
    found = {name: f"{inspect.getdoc(find(name))}\n\n{inspect.cleandoc(ON_PAGE.get(name, ''))}" for name in NAMES}
    public = {find(name).__doc__ for name in NAMES}
    for info in pkgutil.walk_packages(trgnb.__path__, "trgnb."):
        if not info.name.endswith("__main__"):
            for test in doctest.DocTestFinder().find(importlib.import_module(info.name), info.name):
                if test.examples and test.docstring not in public:
                    found[test.name] = test.docstring
    return {name: text for name, text in found.items() if ">>>" in text}


DOCUMENTED = documented()


@pytest.fixture(scope="module")
def names():
    """What the examples may use: the imports at the top of the page."""
    cell = re.search(r"^```\{code-cell\} python3\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    namespace = {}
    exec(cell, namespace)
    return namespace


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_hold(name, names, monkeypatch):
    monkeypatch.delenv("TRGNB_BOOK", raising=False)
    test = doctest.DocTestParser().get_doctest(DOCUMENTED[name], dict(names), name, name, 0)
    report = []
    result = doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=report.append)
    assert result.failed == 0, "".join(report)


@pytest.mark.parametrize("name", NAMES)
def test_public_names_have_a_summary_and_an_example(name):
    first, *rest = inspect.getdoc(find(name)).splitlines()
    assert first.endswith((".", ":")) and len(first) <= 120, f"no summary in one line: {first}"
    assert not rest or not rest[0], f"the summary runs on: {rest[0]}"
    assert name in DOCUMENTED, "no example"


@pytest.mark.parametrize("module", [trgnb, traced], ids=lambda module: module.__name__)
def test_page_has_every_public_name(module):
    public = {f"{module.__name__}.{name}" for name in module.__all__ if not inspect.ismodule(getattr(module, name))}
    assert public - {*NAMES, *DATA} == set()


def test_page_has_every_name_once():
    assert len({*NAMES, *DATA}) == len([*NAMES, *DATA])


def test_docstrings_become_rest(monkeypatch):
    """Fields are set apart, what looks like markup is text, and examples stay as they are."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "book" / "_ext")
    rest = importlib.import_module("docstrings").as_rest
    lines = "ln |T| of 2**N.\n\nt, k: a tensor\n  and k_.  eps: > 0.\nErrors: ``a | b``.\n\n>>> x * y\n|z|".split("\n")
    text = "\n".join(line for line in rest(lines) if line)
    assert text == (
        "ln \\|T\\| of 2\\*\\*N.\n- ``t``, ``k``: a tensor\n  and k\\_.\n- ``eps``: > 0.\n*Errors:* ``a | b``.\n>>> x * y\n|z|"
    )

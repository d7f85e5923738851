"""The numbers gate: one test per number and per printed text, over what is accepted and what the build holds.

It judges the book in _build and builds nothing.
"""

from pathlib import Path

import pytest

from trgnb.numbers import checks, read_accepted, read_build

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"


def looked_at():
    """Return the checks, and why there are none."""
    try:
        return list(checks(read_accepted(ROOT / "tests" / "numbers"), read_build(BUILD, ROOT / "_toc.yml"))), ""
    except (FileNotFoundError, ValueError) as error:
        return [], str(error)


CHECKS, PROBLEM = looked_at()


def test_there_is_a_book_with_numbers():
    assert not PROBLEM, PROBLEM
    assert CHECKS, "no chapter pins or prints anything"


def test_the_book_is_newer_than_its_sources():
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "book").glob("*.md"), ROOT / "_config.yml", ROOT / "_toc.yml"]
    executed = [*(BUILD / "jupyter_execute").rglob("*.ipynb")]
    assert executed, "there is no executed book: run `make book`"
    built = min(path.stat().st_mtime for path in executed)
    newer = [str(path.relative_to(ROOT)) for path in sources if path.stat().st_mtime > built]
    assert not newer, f"the book is older than {', '.join(newer)}: run `make numbers`, which builds it afresh"


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_number(check):
    if check.finding:
        pytest.fail(str(check.finding), pytrace=False)

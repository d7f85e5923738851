"""One real build: what a chapter pins and prints arrives where the numbers gate and the pages look for it."""

from pathlib import Path

import pytest

import trgnb
from trgnb import numbers

SRC = Path(trgnb.__file__).parents[1]

CONFIG = """
title: toy
only_build_toc_files: true
execute: {execute_notebooks: force, raise_on_error: true}
sphinx: {config: {nb_render_markdown_format: myst}}
"""

HEADER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst, format_version: 0.13}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""

PINS = """
# Pins

Prose: {glue:text}`one.third:.3e` {glue:text}`one.x.0.44:.5f` {glue:text}`one.k` {glue:text}`one.word`.

```{code-cell} ipython3
import numpy as np
from trgnb.numbers import pin

print("before")
third = pin("one.third", np.float64(1) / 3, rtol=1e-12)
print("after", third)
```

```{code-cell} ipython3
:tags: [machine]
print("took 1.5 s", pin("one.seconds", 1.5, rtol=0.1))
```

```{code-cell} ipython3
:tags: [raises-exception]
pin("one.third", 0.5, atol=0)
```

```{code-cell} ipython3
```

```{code-cell} ipython3
from IPython.display import Markdown, display

display({"text/plain": "wording of version 3"}, raw=True, metadata={"trgnb": {"compare": "stable"}})
pin("one.x.0.44", np.float32(0.1), atol=0), pin("one.k", np.int64(16)), pin("one.word", "abc")
Markdown("| table |\\n|---|\\n| {glue:text}`one.third:.4e` {glue:text}`one.x.0.44:.6f` |")
```
"""

QUOTES = """
# Quotes

Elsewhere: {glue:text}`one.md::one.third:.5e` {glue:text}`one.md::one.x.0.44:.4f` {glue:text}`one.md::one.k:d`.
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory, build_book):
    root = tmp_path_factory.mktemp("toy")
    (root / "_config.yml").write_text(CONFIG)
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/one\nchapters:\n- file: book/two\n")
    (root / "book").mkdir()
    (root / "book" / "one.md").write_text(HEADER + PINS)
    (root / "book" / "two.md").write_text(QUOTES)
    return build_book(root, SRC, builder="text")


def test_pins_arrive_with_digits_tolerance_and_cell(built):
    [one] = numbers.read_build(built, built.parent / "_toc.yml")
    assert one.name == "one" and not one.unpinned and not one.unraised
    assert {name: (pin.value, pin.rtol, pin.atol, pin.machine) for name, pin in one.pins.items()} == {
        "one.third": (1 / 3, 1e-12, 0.0, False),
        "one.seconds": (1.5, 0.1, 0.0, True),
        "one.x.0.44": (0.10000000149011612, 0.0, 0.0, False),
        "one.k": (16, 0.0, 0.0, False),
        "one.word": ("abc", 0.0, 0.0, False),
    }
    assert one.pins["one.third"].cell == (1, "import numpy as np")
    assert one.pins["one.k"].cell == (4, "from IPython.display import Markdown, display")


def test_what_cells_print_is_kept(built):
    [one] = numbers.read_build(built, built.parent / "_toc.yml")
    assert {name: cell.text for name, cell in one.printed.items()} == {
        "import numpy as np": "before\nafter 0.3333333333333333",
        'pin("one.third", 0.5, atol=0)': "ValueError",  # a name pinned twice
        "from IPython.display import Markdown, display": (
            "stable\n| table |\n|---|\n| {glue:text}`one.third:.4e` {glue:text}`one.x.0.44:.6f` |"
        ),
    }


def test_pages_quote_the_pins(built):
    pages = [" ".join((built / "text" / "book" / f"{page}.txt").read_text().split()) for page in ("one", "two")]
    assert "Prose: 3.333e-01 0.10000 16 abc." in pages[0]
    assert "3.3333e-01 0.100000" in pages[0]
    assert "Elsewhere: 3.33333e-01 0.1000 16." in pages[1]

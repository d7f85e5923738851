r"""Greek letters in the index of the offline search."""

import sys
from pathlib import Path

import pytest

EXT = Path(__file__).resolve().parents[1] / "book" / "_ext"


@pytest.fixture
def split(monkeypatch):
    """The words that the search enters for a text."""
    monkeypatch.syspath_prepend(str(EXT))
    import symbols

    yield symbols.SymbolSearch({}).split
    sys.modules.pop("symbols")


@pytest.mark.parametrize(
    "text, words",
    [
        (r"\chi", {"chi", "χ"}),
        (r"\beta_c", {"beta_c", "beta", "β", "β_c"}),
        (r"\varepsilon^2", {"varepsilon", "2", "epsilon", "ε"}),
        (r"\Sigma", {"Sigma", "sigma", "σ"}),
        (r"\lambda x", {"lambda", "λ", "x"}),
        ("at most χ", {"at", "most", "χ", "chi"}),
        ("lnz_and_grad(beta)", {"lnz_and_grad", "beta"}),  # code: the name is no letter
        (r"\begin{beta}", {"begin", "beta"}),
    ],
)
def test_words_of(split, text, words):
    assert set(split(text)) == words

r"""Greek letters in the offline search: typed as a letter, by name, or written in a formula.

Sphinx cuts text into words and looks them up as they are. Of the formula ``\beta_c`` it keeps the word ``beta_c``, of a
typed χ the word χ: a reader who looks for β or for chi misses them. Here each letter is entered under its name as
well, and each name that begins a TeX command under the letter.
"""

from __future__ import annotations

import re
import unicodedata

from sphinx.search.en import SearchEnglish

# Without the final sigma, which is no symbol of its own. Unicode spells lambda without its b.
LETTERS = [chr(code) for code in range(ord("α"), ord("ω") + 1) if chr(code) != "ς"]
NAMES = {letter: unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda") for letter in LETTERS}
BY_NAME = {name: letter for letter, name in NAMES.items()}
# \varepsilon is an epsilon. A name ends where letters end: at the subscript of \beta_c.
COMMAND = re.compile(r"\\(?:var)?([A-Za-z]+)(_\w)?")


class SymbolSearch(SearchEnglish):
    """English, and Greek letters under their names. The index keeps no capitals, so Σ is σ."""

    def split(self, text: str) -> list[str]:
        """The words of a text."""
        words = super().split(text)
        for name, index in COMMAND.findall(text.lower()):
            if name in BY_NAME:
                words += [name, BY_NAME[name], BY_NAME[name] + index]
        return words + [NAMES[letter] for letter in text.lower() if letter in NAMES]


def setup(app):
    """Replace the English of Sphinx."""
    app.add_search_language(SymbolSearch)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

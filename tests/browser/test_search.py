"""The offline search: words, names of the package, and symbols, as a file and from a server."""

from urllib.parse import quote

import pytest
from page_checks import quiet, visit

# What a reader may type, and a page that has to be among the results. Those of NOTATION are explained there.
FOUND = {
    "tensor": "book/trg.html",
    "cotangent": "book/notation.html#term-cotangent",
    "thin SVD": "book/notation.html#term-thin-SVD",
    "bond dimension": "book/notation.html#term-bond-dimension",
    "Lorentzian": "book/recompute.html",
    "safe_sqrt": "book/api.html#trgnb.svd.safe_sqrt",
    "lnz_and_grad": "book/api.html#trgnb.lnz_and_grad",
    "beta": "book/notation.html#index-0",
    "chi": "book/notation.html#index-0",
    "β": "book/notation.html#index-0",
    "χ": "book/notation.html#index-0",
    "ε": "book/notation.html#index-0",
    "β_c": "book/notation.html",  # in formulas only, as \beta_c
    "σ": "book/trg.html",  # in formulas only, as \sigma
    "Σ": "book/trg.html",
}
# The first result of a symbol says what it stands for.
FIRST = ["β", "χ", "ε"]


def results(page, base, query):
    """The addresses that the search page shows, in its order."""
    page.goto(f"{base}/search.html?q={quote(query)}")
    # The summary is empty until the search is over.
    page.wait_for_function("document.querySelector('.search-summary')?.textContent.match(/finished|did not match/)")
    return page.evaluate("""async () => {
      // The list is written item by item, in time slices.
      const links = () =>
        [...document.querySelectorAll("#search-results li a")].map((link) => link.getAttribute("href"));
      for (let before = -1; before !== links().length; await new Promise((go) => setTimeout(go, 60)))
        before = links().length;
      return links();
    }""")


def test_terms_and_symbols_are_found(base, browser):
    with browser.new_context() as context:
        page, seen = visit(context, f"{base}/search.html")
        found = {query: results(page, base, query) for query in FOUND}
        assert quiet(seen) == []
    missing = {query: found[query] for query, page in FOUND.items() if page not in found[query]}
    assert missing == {}
    assert {query: found[query][0] for query in FIRST} == {query: FOUND[query] for query in FIRST}


@pytest.mark.parametrize("query", ["ζ", "qwertyuiop"])
def test_what_is_not_there_is_not_found(query, html, browser):
    with browser.new_context() as context:
        assert results(context.new_page(), html.as_uri(), query) == []

"""Every page of the built book, in headless Chromium, opened as a file and from a server."""

import pytest
from conftest import chapters
from page_checks import (
    NARROW,
    accessible,
    fits,
    flowcharts,
    formulas,
    luminance,
    pictures,
    quiet,
    turn_dark,
    visible,
    visit,
)

DRAWINGS = ("pre.mermaid > svg", "figure img", ".cell_output img")


@pytest.fixture
def wide(browser):
    """A window as on a desk, light."""
    with browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light") as context:
        yield context


@pytest.fixture
def narrow(browser):
    """A window as on a telephone, light."""
    with browser.new_context(viewport={"width": NARROW, "height": 844}, color_scheme="light") as context:
        yield context


def drawings(page):
    """Complaints about drawings that cannot be seen."""
    return [complaint for selector in DRAWINGS for complaint in visible(page, selector)]


def expect_none(*complaints):
    """Fail with all complaints, one on a line."""
    found = sum(complaints, [])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("chapter", chapters())
def test_page_is_drawn_offline(chapter, base, wide):
    page, seen = visit(wide, f"{base}/{chapter}.html")
    expect_none(flowcharts(page), formulas(page), pictures(page), fits(page), drawings(page), quiet(seen))
    if base.startswith("file:"):  # a server sends the same
        expect_none(accessible(page))


@pytest.mark.parametrize("chapter", chapters())
def test_page_in_the_dark(chapter, base, wide):
    page, seen = visit(wide, f"{base}/{chapter}.html")
    light = luminance(page)
    expect_none(turn_dark(page, seen))
    assert light > 200 and luminance(page) < 60
    expect_none(flowcharts(page), formulas(page), drawings(page), quiet(seen))
    if base.startswith("file:"):  # a server sends the same
        expect_none(accessible(page))


@pytest.mark.parametrize("chapter", chapters())
def test_page_on_a_telephone(chapter, base, narrow):
    page, seen = visit(narrow, f"{base}/{chapter}.html")
    expect_none(fits(page), drawings(page), quiet(seen))
    if base.startswith("file:"):
        expect_none(accessible(page), turn_dark(page, seen), accessible(page))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, NARROW])
@pytest.mark.parametrize("name", ["search.html?q=tensor", "genindex.html"])
def test_pages_that_are_no_chapter(name, width, scheme, html, browser):
    with browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme) as context:
        page, seen = visit(context, f"{html.as_uri()}/{name}")
        # The button that comes when a reader scrolls up.
        page.evaluate("document.querySelector('#pst-back-to-top').style.display = 'block'")
        expect_none(accessible(page), quiet(seen))


def test_first_address_leads_to_the_book(base, wide):
    page = wide.new_page()
    page.goto(f"{base}/index.html")
    page.wait_for_url(f"{base}/{chapters()[0]}.html")

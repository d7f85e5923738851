"""The book without a mouse: what can be pressed is reached with Tab, is seen to have the focus, and works."""

import io

import pytest
from page_checks import READY
from PIL import Image, ImageChops

MANY = 120  # presses of Tab: more than any of these places is away from the top


@pytest.fixture
def page(html, browser):
    """A chapter with folded cells and a folded solution."""
    window = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
    with browser.new_context(**window, reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto(f"{html.as_uri()}/book/trg.html")
        page.wait_for_function(READY)
        yield page


def tab_to(page, selector):
    """Press Tab until what ``selector`` names has the focus; it has to look different with it."""
    for _ in range(MANY):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            break
    else:
        pytest.fail(f"{MANY} presses of Tab do not lead to {selector}")
    focused = page.evaluate_handle("document.activeElement").as_element()
    page.wait_for_timeout(50)
    assert focused.is_visible()
    box = focused.bounding_box()
    around = {"x": max(box["x"] - 6, 0), "y": max(box["y"] - 6, 0)}
    around |= {"width": box["width"] + 12, "height": box["height"] + 12}

    def look():
        return Image.open(io.BytesIO(page.screenshot(clip=around))).convert("RGB")

    with_focus = look()
    # Without the focus, and at the same place of the page.
    focused.evaluate("element => element.blur()")
    page.wait_for_timeout(50)
    without = look()
    focused.evaluate("element => element.focus({ preventScroll: true, focusVisible: true })")
    assert ImageChops.difference(with_focus, without).getbbox(), f"{selector} looks the same with the focus"


def test_skip_link_leads_to_the_text(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to main content"
    assert page.locator("#pst-skip-link a").is_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('#main-content').contains(document.activeElement)")


def test_search_opens_and_finds(page):
    tab_to(page, ".search-button__button")
    page.keyboard.press("Enter")
    page.keyboard.type("cotangent")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=cotangent*")
    page.wait_for_selector("#search-results li a")


def test_theme_changes(page):
    tab_to(page, ".theme-switch-button")
    themes = []
    for _ in range(3):
        page.keyboard.press("Space")
        themes.append(page.evaluate("document.documentElement.dataset.theme"))
        # The theme takes the focus away from a pressed button, but the place in the order is kept.
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
    assert {"light", "dark"} <= set(themes)


def test_folded_cell_opens(page):
    tab_to(page, "details.hide > summary")
    folded = page.locator("details.hide").filter(has=page.locator("summary:focus"))
    assert not folded.locator(".cell_input").is_visible()
    page.keyboard.press("Space")
    assert folded.locator(".cell_input").is_visible()


def test_solution_opens(page):
    tab_to(page, "button.toggle-button")
    solution = page.locator(".admonition.toggle").first
    assert not solution.locator("p:not(.admonition-title)").first.is_visible()
    page.keyboard.press("Enter")
    page.wait_for_function("!document.querySelector('.admonition.toggle').classList.contains('toggle-hidden')")
    assert solution.locator("p:not(.admonition-title)").first.is_visible()
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"


def test_wide_formula_scrolls(page):
    page.set_viewport_size({"width": 390, "height": 844})
    tab_to(page, 'mjx-container[display="true"]')
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")

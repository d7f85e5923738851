"""The book on paper: the article alone, black on white, nothing cut off, with the solutions."""

import pytest
from conftest import chapters
from page_checks import READY, TOO_WIDE

PAPER = 680  # pixels: A4 at 96 to the inch, without its margins

# What is pressed or followed, not read.
CONTROLS = """() => [...document.querySelectorAll(
    "button, summary, nav, header, footer, dialog, .headerlink, input, .bd-sidebar")]
  .filter((element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
  .map((element) => `${element.tagName.toLowerCase()}.${element.className}`)"""

# Text that is hidden, cut, or not dark enough for paper.
UNREADABLE = """() => {
  const main = document.querySelector("article");
  const dark = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).every((part) => part < 100);
  const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  const complaints = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || element.closest("svg, mjx-container, style, script")) continue;
    if (!element.checkVisibility()) continue;
    if (!dark(getComputedStyle(element).color)) complaints.push(`pale: ${element.outerHTML.slice(0, 80)}`);
  }
  for (const box of main.querySelectorAll("*")) {
    if (box.closest("svg, mjx-container, .toggle-button") || !box.checkVisibility()) continue;
    const style = getComputedStyle(box);
    if (style.overflowX !== "visible" && box.scrollWidth > box.clientWidth + 1 && box.clientWidth > 0)
      complaints.push(`cut: ${box.outerHTML.slice(0, 80)}`);
  }
  return complaints;
}"""

SOLUTIONS = """() => [...document.querySelectorAll(".admonition.toggle")].flatMap((solution) =>
  [...solution.querySelectorAll(":scope > :not(.admonition-title)")].filter((part) =>
    !part.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || part.getBoundingClientRect().height < 5)
  .map((part) => `not printed: ${part.outerHTML.slice(0, 80)}`))"""

FLOWCHARTS = """() => [...document.querySelectorAll("pre.mermaid .node")].flatMap((node) => {
  const shape = node.querySelector(".label-container path") ?? node.querySelector(".label-container");
  const colours = [getComputedStyle(shape).fill, getComputedStyle(node.querySelector(".nodeLabel p")).color];
  return colours.join() === "rgb(255, 255, 255),rgb(0, 0, 0)" ? [] : [`flowchart: ${colours}`];
})"""


CHECKS = (CONTROLS, UNREADABLE, SOLUTIONS, FLOWCHARTS, TOO_WIDE)


def complaints(page):
    """What is wrong with a page on paper."""
    return [complaint for check in CHECKS for complaint in page.evaluate(check)]


@pytest.fixture
def printed(html, browser):
    """Opens a chapter as it goes to paper, with nothing unfolded by hand; from a dark page, unless told otherwise."""
    contexts = []

    def open_page(chapter, scheme="dark"):
        contexts.append(browser.new_context(viewport={"width": PAPER, "height": 960}, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.goto(f"{html.as_uri()}/{chapter}.html")
        page.wait_for_function(READY)
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        page.emulate_media(media="print")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("chapter, scheme", [*((chapter, "dark") for chapter in chapters()), ("book/trg", "light")])
def test_page_on_paper(chapter, scheme, printed):
    page = printed(chapter, scheme)
    assert complaints(page) == []
    article = page.locator("article").bounding_box()
    assert (article["x"], article["width"]) == (0, PAPER)
    # The ground below the text is white, that of code and solutions at most a light grey.
    grounds = page.evaluate("""() => ["html, body", ".bd-article :is(pre, table, td, .admonition)"].map((parts) =>
      [...document.querySelectorAll(parts)].map((part) => getComputedStyle(part).backgroundColor)
        .filter((colour) => !colour.startsWith("rgba")).map((colour) => Math.min(...colour.match(/[0-9]+/g))))""")
    assert set(grounds[0]) == {255} and all(level > 200 for level in grounds[1])


def test_links_that_leave_the_book_say_where_to(printed):
    page = printed("book/environment")
    page.evaluate("""document.querySelector("article p").innerHTML =
      '<a class="reference external" href="https://example.org/a">there</a>'""")
    said = page.evaluate("getComputedStyle(document.querySelector('article p a'), '::after').content")
    assert "https://example.org/a" in said


def test_answers_are_printed_and_folded_code_is_not(printed):
    page = printed("book/svd-outputs")
    whole = page.locator("details.hide:has(> .cell_output)")
    assert whole.count() and all(part.is_visible() for part in whole.locator(".cell_input, .cell_output").all())
    code = page.locator("details.hide:not(:has(> .cell_output)) .cell_input")
    assert code.count() and not any(part.is_visible() for part in code.all())


FAULTS = (
    "html .prev-next-footer.d-print-none { display: block !important }",
    ".bd-article p { color: #ccc !important }",
    "#main-content .bd-article .highlight pre { white-space: pre !important; overflow: hidden !important }",
    ".bd-article .admonition.toggle-hidden .admonition-title ~ * { height: 0 !important }",
    "pre.mermaid .node rect { fill: #222 !important }",
    ".bd-article { width: 900px !important }",
)


def test_faults_on_paper_are_found(printed):
    page = printed("book/trg")
    for fault in FAULTS:
        style = page.add_style_tag(content=fault)
        assert complaints(page), fault
        style.evaluate("style => style.remove()")
    assert not complaints(page)

"""The checks of the pages find what they are there for: each is tried on a page made wrong on purpose."""

import pytest
from page_checks import accessible, fits, flowcharts, formulas, pictures, quiet, visible, visit

GOOD = "<p>text</p>"


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page with the given body; returns it and what the browser said."""
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:

        def open_page(body):
            path = tmp_path / "page.html"
            icon = '<link rel="icon" href="data:,">'
            path.write_text(f"<!doctype html><html><head>{icon}</head><body>{body}</body></html>", encoding="utf8")
            return visit(context, path.as_uri())

        yield open_page


def test_good_page_has_no_complaints(opened):
    page, seen = opened(GOOD)
    assert quiet(seen) + flowcharts(page) + formulas(page) + pictures(page) + fits(page) == []


@pytest.mark.parametrize(
    "body",
    [
        '<script src="https://cdn.example/mermaid.js"></script>',
        '<link rel="stylesheet" href="https://fonts.example/css">',
        '<img src="http://elsewhere.example/a.png" alt="a">',
        "<script>fetch('https://elsewhere.example/data.json').catch(() => 0)</script>",
    ],
)
def test_request_to_another_host_is_found(opened, body):
    _, seen = opened(body)
    assert any("another host" in complaint for complaint in quiet(seen))


@pytest.mark.parametrize(
    "body",
    [
        "<script>console.error('broken')</script>",
        "<script>undefined_name()</script>",
        "<script>Promise.reject(new Error('broken'))</script>",
        '<script src="missing.js"></script>',
    ],
)
def test_error_is_found(opened, body):
    _, seen = opened(body)
    assert quiet(seen)


def test_flowchart_left_as_text_is_found(opened):
    page, _ = opened('<pre class="mermaid" data-drawn="default">flowchart LR</pre>')
    assert flowcharts(page) == ["flowchart 0 is not drawn"]


def test_formula_left_as_text_is_found(opened):
    page, _ = opened(r'<span class="math">\(x^2\)</span>')
    assert formulas(page)


@pytest.mark.parametrize("alt", ["", 'alt=""', 'alt="_images/a.png"'])
def test_missing_alt_text_is_found(opened, alt):
    dot = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="
    page, _ = opened(f'<img src="{dot}" {alt}>')
    assert any("no alt text" in complaint for complaint in pictures(page))


def test_missing_image_and_caption_are_found(opened):
    page, _ = opened('<figure id="f"><img src="missing.png" alt="words"></figure>')
    assert len(pictures(page)) == 2


def test_wide_content_is_found_unless_its_box_scrolls(opened):
    wide = '<pre style="width: 900px">x</pre>'
    page, _ = opened(f"<article>{wide}</article>")
    assert fits(page)
    page, _ = opened(f'<article><div style="overflow-x: auto">{wide}</div></article>')
    assert fits(page) == []


def test_grey_on_grey_is_found(opened):
    def square(colour):
        return f'<svg width="90" height="90"><rect width="90" height="90" fill="#555"/><circle r="40" fill="{colour}"/></svg>'

    page, _ = opened(square("#5f5f5f"))
    assert visible(page, "svg")
    page, _ = opened(square("#eee"))
    assert visible(page, "svg") == []


WELL_MADE = (
    '<header><a href="#m">Skip</a></header><main id="m"><h1>Title</h1><p>Text and <a href="#m">a link</a>.</p>'
    '<button>Press</button><label>Name <input></label></main>'
)


def opened_whole(opened, body):
    """A page with the title and the language that the other pages of this file have no need for."""
    page, _ = opened(body)
    page.evaluate("document.title = 'Title'; document.documentElement.lang = 'en'")
    return page


def test_well_made_page_is_accessible(opened):
    assert accessible(opened_whole(opened, WELL_MADE)) == []


@pytest.mark.parametrize(
    "rule, good, bad",
    [
        ("image-alt", "<p>Text", '<p><img src="data:,">Text'),
        ("color-contrast", "<p>Text", '<p style="color: #999; background: #fff">Text'),
        ("color-contrast", "<p>Text",
         '<div class="highlight"><pre><span class="k" style="color: #999">if</span></pre></div><p>Text'),
        ("region", "<main", "<p>Outside of every landmark.</p><main"),
        ("landmark-one-main", "<main", '<section aria-label="Words"'),
        ("heading-order", "<p>Text", "<h3>Too deep</h3><p>Text"),
        ("page-has-heading-one", "h1", "h2"),
        ("button-name", "Press", ""),
        ("link-name", "a link", ""),
        ("label", "Name", ""),
        ("empty-table-header", "<p>Text",
         "<table><tr><th></th><th>a</th></tr><tr><td>1</td><td>2</td></tr></table><p>Text"),
        ("scrollable-region-focusable", "<p>Text",
         '<div style="width: 90px; overflow: auto; white-space: nowrap">words that are wider than the box</div><p>Text'),
    ],
)  # fmt: skip
def test_inaccessible_page_is_found(opened, rule, good, bad):
    assert good in WELL_MADE
    found = accessible(opened_whole(opened, WELL_MADE.replace(good, bad)))
    assert found and {complaint.partition(":")[0] for complaint in found} == {rule}


def test_faint_words_in_a_flowchart_are_found(opened):
    def chart(fill):
        box = f'<rect class="label-container" width="90" height="40" fill="{fill}"/>'
        label = '<span class="nodeLabel" style="color: #333">box</span>'
        node = f'<g class="node">{box}<foreignObject width="90" height="40">{label}</foreignObject></g>'
        return f'<main><h1>Title</h1><pre class="mermaid" data-drawn="default"><svg>{node}</svg></pre></main>'

    assert accessible(opened_whole(opened, chart("#eee"))) == []
    assert accessible(opened_whole(opened, chart("#666"))) == ["flowchart: box: contrast 2.20"]

"""What a page of the book must satisfy in a browser: each check returns complaints, none when all is well.

The checks are plain functions on an open page, so that test_page_checks.py can try them on pages made wrong
on purpose.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from PIL import Image

NARROW = 390  # pixels: the width of a telephone
DRAWING_TIMEOUT = 60_000  # milliseconds

# Folded parts are part of the page: unfold them before looking.
UNFOLD = """() => {
  document.querySelectorAll("details").forEach((part) => { part.open = true; });
  document.querySelectorAll(".toggle-hidden").forEach((part) => part.classList.remove("toggle-hidden"));
}"""

READY = """async () => {
  if (window.MathJax?.startup?.promise) await window.MathJax.startup.promise;
  const theme = document.documentElement.dataset.theme === "dark" ? "dark" : "default";
  return [...document.querySelectorAll("pre.mermaid")].every((box) => box.dataset.drawn === theme);
}"""

# Visible elements that reach past the right edge although no box around them scrolls or cuts.
TOO_WIDE = """() => {
  const limit = document.documentElement.clientWidth + 1;
  const boxed = (element) => {
    for (let box = element.parentElement; box && box !== document.body; box = box.parentElement)
      if (getComputedStyle(box).overflowX !== "visible") return true;
    return false;
  };
  const main = document.querySelector("article") ?? document.body;
  const wide = [...main.querySelectorAll("*")].filter((element) => {
    const edge = element.getBoundingClientRect();
    return edge.width > 0 && edge.right > limit && !boxed(element);
  }).map((element) => `${element.tagName.toLowerCase()}.${element.className}`.slice(0, 80));
  const page = document.scrollingElement;
  if (page.scrollWidth > page.clientWidth) wide.push(`the page: ${page.scrollWidth} > ${page.clientWidth} px`);
  return wide;
}"""


# What axe-core need not walk through, nine tenths of its time: the drawings of formulas, which are hidden from screen
# readers (their MathML is not), and all but the first span of each class in a block of code, whose colour is a
# function of the class. Half-faded colours of parts that unfold are brought to their end.
LIGHTEN = """() => {
  document.getAnimations().forEach((animation) => {
    if (animation.effect.getComputedTiming().endTime < Infinity) animation.finish();
  });
  document.querySelectorAll("mjx-container > svg[aria-hidden]").forEach((drawing) => drawing.replaceChildren());
  document.querySelectorAll(".highlight pre").forEach((block) => {
    const seen = new Set();
    block.querySelectorAll("span").forEach((span) => {
      if (seen.has(span.className)) span.replaceWith(...span.childNodes);
      seen.add(span.className);
    });
  });
}"""

# The words in a flowchart's boxes: axe-core does not see what an SVG shape puts under them.
FAINT_WORDS = """() => {
  const colour = (text) => text.match(/[0-9.]+/g).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const luminance = (text) => { const [r, g, b] = colour(text); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  return [...document.querySelectorAll("pre.mermaid .node")].flatMap((node) => {
    const words = node.querySelector(".nodeLabel");
    const shape = node.querySelector(".label-container path") ?? node.querySelector(".label-container");
    const levels = [luminance(getComputedStyle(words).color), luminance(getComputedStyle(shape).fill)];
    const ratio = (Math.max(...levels) + 0.05) / (Math.min(...levels) + 0.05);
    return ratio < 4.5 ? [`${words.textContent}: contrast ${ratio.toFixed(2)}`] : [];
  });
}"""


@dataclass
class Visit:
    """What the browser said while a page was open."""

    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


def visit(context, url: str):
    """Open ``url`` and wait until math and flowcharts are drawn; returns the page and what it said."""
    page, seen = context.new_page(), Visit()
    home = urlsplit(url)

    def local(address: str) -> bool:
        parts = urlsplit(address)
        return parts.scheme in ("data", "blob", "about") or (parts.scheme, parts.netloc) == (home.scheme, home.netloc)

    def route(route):
        if local(route.request.url):
            route.continue_()
        else:
            seen.foreign.append(route.request.url)
            route.abort()

    page.route("**/*", route)
    page.on("websocket", lambda socket: seen.foreign.append(socket.url))
    page.on("console", lambda text: seen.errors.append(f"console: {text.text}") if text.type == "error" else None)
    page.on("pageerror", lambda error: seen.errors.append(f"page error: {error}"))
    page.on("requestfailed", lambda request: seen.errors.append(f"not loaded: {request.url}"))
    page.on("response", lambda answer: seen.errors.append(f"{answer.status}: {answer.url}") if answer.status >= 400 else None)
    page.goto(url, wait_until="load")
    page.evaluate(UNFOLD)
    settle(page, seen)
    return page, seen


def settle(page, seen: Visit) -> None:
    """Wait until everything is drawn; running out of time is an error of the page."""
    try:
        page.wait_for_function(READY, timeout=DRAWING_TIMEOUT)
    except Exception as error:  # whatever the browser's reason, the page is not ready
        seen.errors.append(f"not drawn: {error}".splitlines()[0])


def quiet(seen: Visit) -> list[str]:
    """No error and no request to another host."""
    return seen.errors + [f"request to another host: {url}" for url in seen.foreign]


def flowcharts(page) -> list[str]:
    """Every flowchart is drawn as SVG with something in it, and says in words what it shows."""
    return page.evaluate("""() => [...document.querySelectorAll("pre.mermaid")].flatMap((box, number) => {
      const drawing = box.querySelector("svg");
      if (!drawing || !drawing.querySelector("path, rect, line")) return [`flowchart ${number} is not drawn`];
      if (!(drawing.viewBox.baseVal.width > 10)) return [`flowchart ${number} has no size`];
      if (!box.getAttribute("aria-label") && !drawing.querySelector("title"))
        return [`flowchart ${number} has no words for who cannot see it (option alt, or accTitle)`];
      return [];
    })""")


def formulas(page) -> list[str]:
    """Every formula is typeset, without an error in it, and there as MathML for screen readers."""
    return page.evaluate("""() => [...document.querySelectorAll(".math")].flatMap((formula) => {
      if (!formula.querySelector("mjx-container svg")) return [`not typeset: ${formula.textContent.slice(0, 60)}`];
      const error = formula.querySelector("[data-mjx-error]");
      if (!formula.querySelector("mjx-assistive-mml math"))
        return [`not for screen readers: ${formula.textContent.slice(0, 60)}`];
      return error ? [`math error: ${error.dataset.mjxError}: ${formula.textContent.slice(0, 60)}`] : [];
    })""")


def accessible(page) -> list[str]:
    """axe-core finds nothing, and the words in flowcharts are readable. The last look at a page: it changes it."""
    faint = [f"flowchart: {words}" for words in page.evaluate(FAINT_WORDS)]
    page.evaluate(LIGHTEN)
    # Without preload: axe would fetch the style sheets again, which browsers refuse on file://.
    found = Axe().run(page, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
    return faint + [
        f"{rule['id']}: {rule['help']}: {node['target'][-1]}: {node['html'][:160]}"
        for rule in found
        for node in rule["nodes"]
    ]


def pictures(page) -> list[str]:
    """Every image is loaded and has alt text that is more than its file's name; every figure has a caption."""
    return page.evaluate("""() => [
      ...[...document.querySelectorAll("img")].flatMap((image) => {
        const alt = (image.getAttribute("alt") ?? "").trim();
        if (!image.complete || !image.naturalWidth) return [`image not loaded: ${image.src}`];
        if (!alt || alt.includes("/") || /[.](svg|png|jpe?g)$/.test(alt)) return [`no alt text: ${image.src} "${alt}"`];
        return [];
      }),
      ...[...document.querySelectorAll("figure")].flatMap((figure) =>
        figure.querySelector("figcaption")?.textContent.trim() ? [] : [`figure without caption: ${figure.id}`]),
    ]""")


def fits(page) -> list[str]:
    """Nothing reaches past the right edge unless a box around it scrolls."""
    return [f"too wide: {what}" for what in page.evaluate(TOO_WIDE)]


def visible(page, selector: str) -> list[str]:
    """Every drawing that ``selector`` finds stands out from its ground (grey on grey does not)."""
    complaints = []
    for number, drawing in enumerate(page.query_selector_all(selector)):
        if not drawing.is_visible():
            complaints.append(f"{selector} {number} is not visible")
            continue
        grey = Image.open(io.BytesIO(drawing.screenshot())).convert("L")
        if contrast(grey) < 60:
            complaints.append(f"{selector} {number} does not stand out from its ground")
    return complaints


def contrast(grey: Image.Image) -> int:
    """The range of grey levels that at least one pixel in 2000 goes beyond, on each side."""
    histogram, few = grey.histogram(), grey.width * grey.height / 2000
    levels = [level for level in range(256) if sum(histogram[: level + 1]) > few]
    tops = [level for level in range(256) if sum(histogram[level:]) > few]
    return tops[-1] - levels[0]


def turn_dark(page, seen: Visit) -> list[str]:
    """Press the theme button until the page is dark; complains when it never is."""
    for _ in range(3):
        if page.evaluate("document.documentElement.dataset.theme") == "dark":
            settle(page, seen)
            return []
        page.locator(".theme-switch-button:visible").first.click()
        # Off the button, whose tooltip would cover the page.
        page.mouse.move(0, 300)
        page.wait_for_selector(".tooltip", state="detached")
    return ["the theme button does not make the page dark"]


def luminance(page) -> int:
    """The lightness (0 to 255) of the page's ground."""
    picture = Image.open(io.BytesIO(page.screenshot(clip={"x": 0, "y": 300, "width": 4, "height": 4})))
    return picture.convert("L").getpixel((1, 1))

"""What chapters render in place: tables, flowcharts, drawn networks, errors and the figure style."""

import os
import re
import textwrap
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from IPython.display import Markdown, display
from matplotlib import pyplot as plt

from trgnb.staging import stages


def use_style():
    """Set the book's figure style, and vector graphics where a notebook draws the figures."""
    plt.style.use("trgnb.book")
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    set_matplotlib_formats("svg")


def table(header, rows, *, caption, name, wrap=False):
    """A captioned table, as Markdown.

    header: column titles.  rows: sequences of cells, each a string already formatted (Markdown allowed).
    caption: sentence above the table.  name: label for {numref}.  wrap: let long cells break into lines.
    Errors: ValueError for a row whose length is not that of the header.

    >>> text = show.table(["step", "k"], [["0", "2"]], caption="Bonds.", name="k")
    >>> text.data.splitlines()[-1]
    '| 0 | 2 |'
    """
    rows = [list(row) for row in rows]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"table {name!r} has {len(header)} columns, but a row of {len(row)} cells: {row!r}")
    lines = [header, ["---"] * len(header), *rows]
    body = "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
    if not _in_book():
        return Markdown(f"**{caption}**\n\n{body}")
    options = f":name: {name}\n" + (":class: wrap\n" if wrap else "")
    return Markdown(f":::{{table}} {caption}\n{options}\n{body}\n:::")


def flowchart(lines, *, caption, name, alt, direction="TB"):
    """A captioned flowchart in the mermaid language, as Markdown.

    lines: mermaid statements.  alt: the chart in words, for readers who cannot see it.

    >>> words = {"caption": "An arrow.", "name": "arrow", "alt": "a, then b"}
    >>> print(show.flowchart(["a --> b"], **words).data)
    ```mermaid
    flowchart TB
      accTitle: a, then b
      a --> b
    ```
    """
    body = "\n".join([f"flowchart {direction}", f"  accTitle: {alt}", *(f"  {line}" for line in lines)])
    options = f":caption: {caption}\n:name: {name}\n:alt: {alt}\n\n" if _in_book() else ""
    return Markdown(f"```mermaid\n{options}{body}\n```")


def chain_flowchart(ks, *, caption, name):
    """The staged evaluation of a schedule, drawn from the chain that the driver runs.

    Equal stages share one program, so they share one box: its label counts its uses.
    """
    chain = stages(ks)
    programs = {stage: f"p{n}" for n, stage in enumerate(dict.fromkeys(chain))}
    lines = []
    for stage, box in programs.items():
        uses = chain.count(stage)
        size = f"<br/>d = {stage.d}, k = {stage.k}" if stage.name == "step" else ""
        lines.append(f'{box}["{stage.name}{size}<br/>used {uses} time{"s" if uses > 1 else ""}"]')
    lines += [
        f"beta([beta]) --> {programs[chain[0]]}",
        *(f"{a} --> {b}" for a, b in zip(programs.values(), list(programs.values())[1:], strict=False)),
        f"{programs[chain[-1]]} --> lnz([ln Z per spin])",
        f"lnz -. cotangents, last stage first .-> {programs[chain[-1]]}",
        *(f"{b} -.-> {a}" for a, b in zip(programs.values(), list(programs.values())[1:], strict=False)),
        f"{programs[chain[0]]} -.-> grad([d ln Z / d beta])",
    ]
    steps = ", ".join(f"({s.d}, {s.k})" for s in programs if s.name == "step")
    alt = f"chain from beta through the initial tensor, steps of shape {steps} and the trace to ln Z, and back"
    return flowchart(lines, caption=caption, name=name, alt=alt)


def chapter_flowchart(folder, *, caption, name):
    """Which chapter builds on which, drawn from the line ``*Builds on ...*`` under their titles.

    folder: where the chapters are.  Without chapters there, as for a downloaded notebook, a sentence says so.

    >>> show.chapter_flowchart("/", caption="Chapters.", name="chapters").data
    "No chapters in '/': the flowchart is drawn from their sources."
    """
    chapters = {path.stem: path.read_text("utf8") for path in sorted(Path(folder).glob("*.md"))}
    builds = {stem: re.search(r"^\*Builds on (.*)\*$", text, re.MULTILINE) for stem, text in chapters.items()}
    links = [(a, b) for b, line in builds.items() if line for a in re.findall(r"\]\(([\w-]+)\.md\)", line[1])]
    if not links:
        return Markdown(f"No chapters in {str(folder)!r}: the flowchart is drawn from their sources.")
    titles = {stem: re.search("^# (.*)$", chapters[stem], re.MULTILINE)[1] for stem in dict.fromkeys(sum(links, ()))}
    titles = {stem: title.partition(":")[0] for stem, title in titles.items()}  # short, so that the letters are large
    boxes = [f'{stem}["{title}"]' for stem, title in titles.items()]
    alt = "; ".join(f"{titles[b]} builds on {titles[a]}" for a, b in links)
    return flowchart([*boxes, *(f"{a} --> {b}" for a, b in links)], caption=caption, name=name, alt=alt)


@contextmanager
def expect(error, *, match):
    """Run a block that must raise, and print the error in place as ``Type: message``.

    match: what the message must contain in every version of the library, a string or several; the numbers
    gate compares only the type and these.
    Errors: AssertionError when nothing is raised or the message lacks a part.

    >>> with show.expect(ValueError, match="at least 2"):
    ...     trgnb.schedule(chi=1)  # a notebook shows the text alone
    {'text/plain': 'ValueError: chi must be a whole number of at least 2, got 1'}
    """
    parts = [match] if isinstance(match, str) else list(match)
    try:
        yield
    except error as raised:
        caught = raised
    else:
        raise AssertionError(f"this cell is to show a {error.__name__}, but nothing was raised")
    # Libraries append a frame of their own to some messages: paths and line numbers say nothing here.
    message = re.split(r"\n(?:-{20}|The error occurred while tracing)", str(caught))[0]
    if missing := [part for part in parts if part not in message]:
        raise AssertionError(f"the {error.__name__} no longer says {missing}: {message}") from caught
    text = textwrap.fill(f"{type(caught).__name__}: {message}", 78, replace_whitespace=False)
    stable = f"{type(caught).__name__}: {' ... '.join(parts)}"
    display({"text/plain": text}, raw=True, metadata={"trgnb": {"compare": stable}})


def network(ax, nodes, bonds):
    """Draw a tensor network on a matplotlib axis.

    nodes: {name: (x, y, label)}.  bonds: (from, to, label), an end being a node's name or a point (x, y).
    """

    def place(end):
        return nodes[end][:2] if isinstance(end, str) else end

    for start, end, label in bonds:
        (x0, y0), (x1, y1) = place(start), place(end)
        ax.plot([x0, x1], [y0, y1], color="0.35", lw=1.6, zorder=1)
        if label:
            # beside the bond, on the side to which it does not lean
            length = np.hypot(x1 - x0, y1 - y0)
            normal = np.array([y0 - y1, x1 - x0]) / length
            normal = normal if normal.sum() > 0 or (abs(normal.sum()) < 1e-9 and normal[0] > 0) else -normal
            ax.annotate(
                f"${label}$",
                ((x0 + x1) / 2, (y0 + y1) / 2),
                textcoords="offset points",
                xytext=8 * normal,
                fontsize="small",
                ha="center",
                va="center",
            )
    for x, y, label in nodes.values():
        ax.text(
            x, y, f"${label}$", ha="center", va="center", zorder=2,
            bbox={"boxstyle": "circle,pad=0.35", "fc": "#e8f1fa", "ec": "#0b5cad", "lw": 1.2},
        )  # fmt: skip
    ax.set_aspect("equal")
    ax.axis("off")


def _in_book():
    return os.environ.get("TRGNB_BOOK") == "1"

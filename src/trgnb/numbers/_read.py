"""Reading what chapters pinned and printed: from an executed book, and from the accepted files."""

import itertools
import json
import re
from ast import literal_eval
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ._pin import Scalar

# Of what an output offers, the first that is there is compared: the plain text of an object that the page shows
# as Markdown or HTML says nothing but its type.
_TEXTS = "text/markdown", "text/latex", "text/html", "text/plain"


class Cell(NamedTuple):
    """An executed cell: the n of its In[n], counted from 1, and the first line of its source."""

    number: int
    first_line: str

    def __str__(self) -> str:
        return f"{self.number}, `{self.first_line}`"


@dataclass(frozen=True)
class Pin:
    """A pinned number; `cell` says where, and is None in an accepted file."""

    name: str
    value: Scalar
    rtol: float = 0.0
    atol: float = 0.0
    cell: Cell | None = None
    machine: bool = False


@dataclass(frozen=True)
class Printed:
    """What one cell printed; `name` is the first line of its source, numbered where that repeats."""

    name: str
    text: str
    cell: Cell | None = None


@dataclass(frozen=True)
class Chapter:
    """What is held of one chapter, by name, and what cannot be.

    ``unpinned`` names glued values that carry no tolerance, ``unraised`` the cells tagged raises-exception
    that raised nothing, ``exempt`` is what cells tagged machine printed; all are empty in an accepted file.
    """

    name: str
    pins: dict[str, Pin]
    printed: dict[str, Printed]
    unpinned: tuple[str, ...] = ()
    unraised: tuple[Printed, ...] = ()
    exempt: tuple[Printed, ...] = ()

    def standing(self) -> "Chapter":
        """Return the part that can be accepted: without the pins of cells tagged machine."""
        return Chapter(self.name, {k: p for k, p in self.pins.items() if not p.machine}, self.printed)


# --- the executed book ----------------------------------------------------------------------------------------


def read_build(build: Path, toc: Path) -> list[Chapter]:
    """Return the executed chapters that `toc` names, from the folder `build` that Jupyter Book wrote.

    What a former build left behind of other pages is not looked at. FileNotFoundError if a page of the toc
    holds code cells but was not executed.
    """
    chapters = []
    for page in toc_pages(toc.read_text(encoding="utf-8")):
        executed = build / "jupyter_execute" / f"{page}.ipynb"
        if executed.exists():
            glued = executed.with_name(f"{executed.stem}.glue.json")
            glue = json.loads(glued.read_text(encoding="utf-8")) if glued.exists() else {}
            chapters.append(read_chapter(executed.stem, json.loads(executed.read_text(encoding="utf-8")), glue))
        elif "{code-cell}" in (toc.parent / f"{page}.md").read_text(encoding="utf-8"):
            raise FileNotFoundError(f"{executed} is not there: the book has to be built first, by `make book`")
    return chapters


def toc_pages(toc: str) -> list[str]:
    """Return the pages that the text of a _toc.yml names, root first, without suffixes."""
    pages = re.findall(r"""^[\s-]*(?:root|file):\s*['"]?([^\s'"#]+)""", toc, flags=re.MULTILINE)
    return [page.removesuffix(".md") for page in pages]


def read_chapter(name: str, notebook: dict, glue: dict) -> Chapter:
    """Return the chapter `name` from its executed notebook and its glued values, as parsed from JSON."""
    cells = _cells(notebook)
    pins, unpinned = {}, []
    for key, output in glue.items():
        if held := output["metadata"].get("trgnb"):
            executed, value = cells[held["cell"]], _value(output["data"]["text/plain"])
            where, machine = executed.said.cell, "machine" in executed.tags
            pins[key] = Pin(key, value, held["rtol"], held["atol"], where, machine)
        elif not _is_image(output):
            unpinned.append(key)
    printed = {c.said.name: c.said for c in cells.values() if c.said.text and "machine" not in c.tags}
    unraised = tuple(c.said for c in cells.values() if "raises-exception" in c.tags and not c.raised)
    exempt = tuple(c.said for c in cells.values() if c.said.text and "machine" in c.tags)
    return Chapter(name, pins, printed, tuple(unpinned), unraised, exempt)


class _Executed(NamedTuple):
    said: Printed
    tags: frozenset[str]
    raised: bool


def _cells(notebook: dict) -> dict[int, _Executed]:
    """Return the executed cells by the n of In[n]: the number that a pin gives for its cell."""
    executed = [cell for cell in notebook["cells"] if cell.get("execution_count")]
    first_lines = ("".join(cell["source"]).strip().splitlines()[0] for cell in executed)
    names = _numbered(line.strip()[:72] for line in first_lines)
    cells = {}
    for cell, name in zip(executed, names, strict=True):
        number, outputs = cell["execution_count"], cell["outputs"]
        said = Printed(name, printed_text(outputs), Cell(number, name))
        raised = any(output["output_type"] == "error" for output in outputs)
        cells[number] = _Executed(said, frozenset(cell["metadata"].get("tags", ())), raised)
    return cells


def printed_text(outputs: list[dict]) -> str:
    """Return what a cell's outputs say, as one text: streams, Markdown or plain text, names of errors.

    Images say nothing. An output whose metadata hold ``{"trgnb": {"compare": TEXT}}`` says that TEXT: so a
    message whose wording belongs to another library's version is held by what is stable in it.
    """
    pieces = []
    for stream, group in itertools.groupby(outputs, lambda output: output.get("name")):
        said = [_said(output) for output in group]
        pieces += ["".join(said)] if stream else said  # a kernel may send one stream in several pieces
    return "\n".join(piece.strip("\n") for piece in pieces if piece.strip())


def _said(output: dict) -> str:
    if output["output_type"] == "stream":
        return "".join(output["text"])
    if output["output_type"] == "error":
        return output["ename"]
    held = output["metadata"].get("trgnb", {}).get("compare")
    if held is not None:
        return held
    data = {} if _is_image(output) else output["data"]
    return "".join(next((data[mime] for mime in _TEXTS if mime in data), ""))


def _is_image(output: dict) -> bool:
    return any(mime.startswith("image/") for mime in output["data"])


def _value(text: str) -> Scalar:
    """Return the value whose repr is `text`; nan and inf are no literals, but have to be recognized."""
    try:
        return float(text) if text.lstrip("-") in ("nan", "inf") else literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _numbered(lines: Iterable[str]) -> Iterator[str]:
    """Yield `lines`, those met before with a number: a, b, a #2."""
    met = Counter()
    for line in lines:
        met[line] += 1
        yield line if met[line] == 1 else f"{line} #{met[line]}"


# --- the accepted files ---------------------------------------------------------------------------------------


def read_accepted(folder: Path) -> list[Chapter]:
    """Return the accepted chapters, one per ``folder/NAME.json``. ValueError if a file is malformed."""
    return [_read_file(path) for path in sorted(folder.glob("*.json"))]


def _read_file(path: Path) -> Chapter:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        pins = {name: Pin(name, **fields) for name, fields in held["pins"].items()}
        printed = {cell["cell"]: Printed(cell["cell"], "\n".join(cell["text"])) for cell in held["text"]}
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no file of accepted numbers ({error!r}): restore it, or `make accept`") from error
    return Chapter(path.stem, pins, printed)


def write_accepted(folder: Path, chapters: Iterable[Chapter]) -> None:
    """Write one ``folder/NAME.json`` per chapter that holds anything, and remove the others.

    A pin is one line and a printed line is one line, pins by name, cells in their order, so that a diff of the
    files shows what moved.
    """
    files = {f"{chapter.name}.json": _dump(chapter) for chapter in chapters if chapter.pins or chapter.printed}
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _dump(chapter: Chapter) -> str:
    pins = [f"    {_json(name)}: {_json(_fields(pin))}" for name, pin in sorted(chapter.pins.items())]
    cells = []
    for cell in chapter.printed.values():
        lines = ",\n".join(f"        {_json(line)}" for line in cell.text.split("\n"))
        cells.append(f'    {{\n      "cell": {_json(cell.name)},\n      "text": [\n{lines}\n      ]\n    }}')
    return f'{{\n  "pins": {_block("{}", pins)},\n  "text": {_block("[]", cells)}\n}}\n'


def _fields(pin: Pin) -> dict:
    if not isinstance(pin.value, float):
        return {"value": pin.value}
    return {"value": pin.value, "rtol": pin.rtol, "atol": pin.atol}


def _block(brackets: str, items: list[str]) -> str:
    return f"{brackets[0]}\n" + ",\n".join(items) + f"\n  {brackets[1]}" if items else brackets


def _json(value) -> str:
    return json.dumps(value, ensure_ascii=False)

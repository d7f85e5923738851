"""The numbers gate is tested by deliberate faults: each is put into a copy of the book, and has to be found.

A fault is one piece of text exchanged for another, in the package or in a chapter. The chapter that shows it is
executed afresh in the copy, with the package of the copy, as far as the first cell that holds the number in
question; what it pins and prints is compared with the accepted numbers.
"""

import fnmatch
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from trgnb.numbers import Chapter, Finding, compare, read_accepted, read_build

ROOT = Path(__file__).resolve().parents[2]


class Fault(NamedTuple):
    """`old` becomes `new` in `file`; then `chapter` must fail at a number or text whose name matches `names`."""

    what: str
    file: str
    old: str
    new: str
    chapter: str
    names: str


FAULTS = [
    # The step and the sum, at the first cell that has an exact value.
    Fault(
        "weight 2^-(n+1)", "src/trgnb/trg.py", "2.0**-n for n in range(steps + 1)",
        "2.0**-n for n in range(1, steps + 2)", "trg", "trg.torus4.trg",
    ),
    Fault(
        "first norm left out", "src/trgnb/trg.py", "    total = w[0] * log_norm\n", "    total = 0.0 * log_norm\n",
        "trg", "trg.torus4.trg",
    ),
    Fault(
        "order of the new legs", "src/trgnb/trg.py", '"wza,zyb,cyx,dxw->cbad"', '"wza,zyb,cyx,dxw->cbda"',
        "trg", "trg.torus4.trg",
    ),
    Fault(
        "legs of the second cut", "src/trgnb/trg.py", "xp.transpose(t, (3, 0, 1, 2))", "xp.transpose(t, (1, 2, 0, 3))",
        "trg", "trg.torus4.trg",
    ),
    Fault(
        "schedule without the rank", "src/trgnb/trg.py", "ks.append(min(int(np.sum(s > _RANK_TOLERANCE * s[0])), chi))",
        "ks.append(min(d * d, chi))", "trg", "trg.schedule.chi16.step0",
    ),
    Fault(
        "decomposition in float32", "src/trgnb/svd.py", "    return tuple(_svd_p.bind(a, eps=float(eps)))\n",
        "    return tuple(x.astype(a.dtype) for x in _svd_p.bind(a.astype(jnp.float32), eps=float(eps)))\n",
        "trg", "trg.torus4.trg",
    ),
    Fault(
        "bond weight", "src/trgnb/ising.py", "2.0 * cosh * sinh * (ones == 2)", "2.0 * sinh * sinh * (ones == 2)",
        "trg", "trg.torus.network",
    ),
    Fault(
        "term of Kaufman's sum", "src/trgnb/ising.py", "(total - jnp.log(2.0)) / size**2", "total / size**2",
        "trg", "trg.torus.exact",
    ),
    # The chapter itself.
    Fault(
        "deleted pin", "book/trg.md", 'pin("trg.torus.exact", ising.exact_lnz(beta, size=2), atol=1e-15)',
        "ising.exact_lnz(beta, size=2)", "trg", "trg.torus.exact",
    ),
    Fault(
        "changed tolerance", "book/trg.md", 'pin("trg.torus.network", jnp.log(z) / 4, atol=1e-15)',
        'pin("trg.torus.network", jnp.log(z) / 4, atol=1e-9)', "trg", "trg.torus.network",
    ),
    Fault(
        "pin in a machine cell", "book/trg.md", "```{code-cell} python3\nbeta = 0.3\n",
        "```{code-cell} python3\n:tags: [machine]\nbeta = 0.3\n", "trg", "trg.torus.network",
    ),
    Fault(
        "printed number is not the pin", "book/trg.md", "network  {torus:.15f}", "network  {torus + 1e-9:.15f}",
        "trg", "beta = 0.3",
    ),
    # The rule of the decomposition and the square root.
    Fault(
        "eps 1e-2", "src/trgnb/svd.py", "def svd(a, eps=1e-12):", "def svd(a, eps=1e-2):",
        "svd-outputs", "svd.rule.tall.lorentz",
    ),
    Fault(
        "off-diagonal term", "src/trgnb/svd.py", "u @ (together + against), v @ (together - against)",
        "u @ together, v @ together", "svd-outputs", "svd.rule.tall.lorentz",
    ),
    Fault(
        "sign of the rotation", "src/trgnb/svd.py", "u @ (together + against), v @ (together - against)",
        "u @ (together + against), v @ (against - together)", "svd-outputs", "svd.rule.tall.lorentz",
    ),
    Fault(
        "absolute value of the gap", "src/trgnb/svd.py", "(r[None, :] - r[:, None]) * total",
        "jnp.abs(r[None, :] - r[:, None]) * total", "svd-outputs", "svd.rule.tall.lorentz",
    ),
    Fault(
        "part outside the columns of U", "src/trgnb/svd.py", "du = du + (dav - u @ (uh @ dav)) * _lorentz(r, eps2)[None, :]",
        "du = du + 0 * dav", "svd-outputs", "svd.rule.tall.lorentz",
    ),
    # The traced library.
    Fault(
        "uses of a tensor not added up", "src/trgnb/traced/transform.py", "cts[x.key] = cts[x.key] + ct if x.key in cts else ct",
        "cts[x.key] = ct", "traced", "traced.tanh",
    ),
    Fault(
        "slice padded at the other end", "src/trgnb/traced/shapes.py", "ct = pad(ct, low, high, between)",
        "ct = pad(ct, high, low, between)", "svd-outputs", "svd.traced.grad_slice.0",
    ),
    Fault(
        "zeros without their sign", "src/trgnb/traced/svd.py", "-np.zeros_like(s), s)", "np.zeros_like(s), s)",
        "svd-outputs", "svd.flush.bits.*",
    ),
    Fault(
        "sign of the traced rotation", "src/trgnb/traced/svd.py", "f * antihermitian(plus(x, y)),", "-(f * antihermitian(plus(x, y))),",
        "svd-outputs", "svd.rule.tall.traced",
    ),
    # The step by sectors.
    Fault(
        "signs of the legs left out", "src/trgnb/sector_stages.py",
        'xp.einsum("bayw,w,y->bawy", corners[i, j, y], sigma[w], sigma[y])',
        'xp.einsum("bayw->bawy", corners[i, j, y])', "faster", "faster.apart.lnz.0.44.small",
    ),
    Fault(
        "turns of kept vectors the wrong way", "src/trgnb/eigenpairs.py", "_inverse(w[kept] - w[:, None])",
        "_inverse(w[:, None] - w[kept])", "faster", "faster.apart.grad.0.44.small",
    ),
]


# --- the book that holds, and a faulty copy of it --------------------------------------------------------------


class Book(NamedTuple):
    """A built book that holds: its folder, and its chapters as accepted and as present."""

    root: Path
    accepted: dict[str, Chapter]
    present: dict[str, Chapter]

    def reach(self, fault: Fault) -> int:
        """Return the number of the first cell that holds what the fault must change. LookupError if none does."""
        held = self.held(fault.chapter)
        if not (named := fnmatch.filter(held, fault.names)):
            raise LookupError(f"{fault.what}: no number or text of {fault.chapter} is named like {fault.names}")
        return min(held[name] for name in named)

    def until(self, chapter: str, cells: int) -> Chapter:
        """Return what is accepted of the first `cells` cells of the chapter."""
        held, accepted = self.held(chapter), self.accepted[chapter]

        def cut(side):
            return {name: value for name, value in side.items() if held.get(name, 0) <= cells}

        return replace(accepted, pins=cut(accepted.pins), printed=cut(accepted.printed))

    def held(self, chapter: str) -> dict[str, int]:
        """Return the number of the cell of each pin and text of a chapter, by name. LookupError if there is none."""
        if chapter not in self.present or chapter not in self.accepted:
            raise LookupError(f"{chapter} has to be executed and its numbers accepted first")
        present = self.present[chapter].standing()
        return {name: value.cell.number for name, value in (present.printed | present.pins).items()}


def read_book(root: Path) -> Book:
    """Read the built book in `root`."""
    accepted, present = read_accepted(root / "tests" / "numbers"), read_build(root / "_build", root / "_toc.yml")
    return Book(root, *({chapter.name: chapter for chapter in side} for side in (accepted, present)))


def copy_of(book: Book, folder: Path, chapter: str, cells: int) -> Path:
    """Copy what the build reads of a book to `folder`, with the first `cells` cells of one chapter only."""
    for path in book.root.iterdir():
        if path.is_file():
            shutil.copy2(path, folder)
    for part in ("book", "src"):
        shutil.copytree(book.root / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (folder / "_toc.yml").write_text(f"format: jb-book\nroot: book/{chapter}\n")
    page = folder / "book" / f"{chapter}.md"
    parts = re.split(r"^(?=`{3,}\{code-cell\})", page.read_text(), flags=re.MULTILINE)
    assert len(parts) > cells, f"{page.name} has {len(parts) - 1} code cells, not {cells}: build the book afresh"
    page.write_text("".join(parts[: cells + 1]))
    return folder


def put(fault: Fault, folder: Path) -> None:
    """Exchange the text of the fault. AssertionError unless it is there exactly once."""
    path = folder / fault.file
    text = path.read_text()
    assert text.count(fault.old) == 1, f"{fault.file} holds {text.count(fault.old)} times, not once: {fault.old!r}"
    path.write_text(text.replace(fault.old, fault.new))


def execute(book: Book, folder: Path, shown: list[Fault], done: list[Fault], build_book) -> list[Finding]:
    """Execute a chapter as far as it shows the faults `shown`, with the faults `done`; return what does not hold."""
    chapter, cells = shown[0].chapter, max(book.reach(fault) for fault in shown)
    copy_of(book, folder, chapter, cells)
    for fault in done:
        put(fault, folder)
    build = build_book(folder, folder / "src")
    return compare([book.until(chapter, cells)], read_build(build, folder / "_toc.yml"))


# --- the tests -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def findings(request, tmp_path_factory, build_book):
    """The findings to come of each selected test, by its parameter: as many run at a time as there are cores."""
    book = read_book(ROOT)
    items = [item for item in request.session.items if item.path == request.path]
    cases = [case for item in items for case in item.callspec.params.values()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:

        def start(shown, done):
            return pool.submit(execute, book, tmp_path_factory.mktemp("book"), shown, done, build_book)

        yield {
            case: start([case], [case]) if isinstance(case, Fault) else start(faults_of(case), []) for case in cases
        }


def faults_of(chapter):
    return [fault for fault in FAULTS if fault.chapter == chapter]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_is_found(fault, findings):
    found = [finding.name for finding in findings[fault].result()]
    assert found, "nothing was found"
    assert fnmatch.filter(found, fault.names), f"found, but not at {fault.names}: {found}"


@pytest.mark.parametrize("chapter", sorted({fault.chapter for fault in FAULTS}))
def test_a_copy_without_a_fault_holds(chapter, findings):
    found = findings[chapter].result()
    assert not found, "\n\n".join(map(str, found))

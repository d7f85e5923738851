"""Build the book from nothing, checked: every warning is an error, and a failed build leaves no book.

    python book/_make/build.py

Output: _build/html (the pages), _build/jupyter_execute (the executed notebooks and their numbers), and with a
repository address _build/notebooks (the notebooks for Colab).
"""

import os
import shutil
import sys
import time
from pathlib import Path

from jupyter_book.cli.main import main as jupyter_book
from sphinx.util.console import nocolor

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
HTML = BUILD / "html"
TAIL = 40


def remove_pages() -> None:
    """Remove what was written, except the reports: a half-built book must not look finished."""
    for path in [*HTML.glob("*"), BUILD / "jupyter_execute", BUILD / "notebooks"]:
        if path.name != "reports":
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def report_failure() -> None:
    """Print the end of each report: the failing cell and its error."""
    reports = sorted((HTML / "reports").rglob("*.log"))
    for report in reports:
        lines = report.read_text("utf8").rstrip().splitlines()
        print(f"\n--- {report.relative_to(ROOT)} (last {min(TAIL, len(lines))} of {len(lines)} lines)")
        print("\n".join(lines[-TAIL:]))
    print("\nThe build FAILED; there is no book in _build/html.")
    if reports:
        print("The failing cell and its error are above and in _build/html/reports/*.log")
    else:
        print("What went wrong is above: warnings count as errors.")


def run_jupyter_book() -> int:
    """Run the checked build in this process; its exit code, 0 when there is nothing to complain about."""
    # The platform is settled here: on a machine with an accelerator JAX would otherwise warn on the pages.
    os.environ["JAX_PLATFORMS"] = "cpu"
    if not sys.stdout.isatty():
        nocolor()
    try:
        jupyter_book(["build", "-W", "--keep-going", "-n", str(ROOT)], prog_name="jupyter-book")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except RuntimeError as error:  # how jupyter-book says that a chapter raised; the report says why
        print(error)
    return 1


def main() -> int:
    start = time.monotonic()
    for name in ("html", "jupyter_execute", "notebooks", ".doctrees", ".jupyter_cache", "ipython"):
        shutil.rmtree(BUILD / name, ignore_errors=True)
    code = 1
    try:
        code = run_jupyter_book()
    finally:
        if code:
            remove_pages()
    if code:
        report_failure()
        return code
    seconds = time.monotonic() - start
    print(f"\nThe book: {(HTML / 'index.html').as_uri()}\nBuilt in {seconds:.0f} s.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Fixtures that several test modules share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Before NumPy and JAX are imported: on a busy machine OpenBLAS threads that wait for each other make an SVD
# ten times slower, and on an idle one they gain nothing for the matrices of the tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def build_book(root: Path, src: Path, builder: str = "dummy") -> Path:
    """Execute the chapters of the book in `root` with the package in `src`; return the folder that was written.

    The chapters are read and executed as for the published pages, by Jupyter Book, but a warning is no error and
    the builder that Sphinx writes with, by default, writes no pages. AssertionError with the end of the log if a
    chapter fails.
    """
    env = os.environ | {"PYTHONPATH": str(src), "TRGNB_BOOK": "1", "JAX_PLATFORMS": "cpu"}
    command = [Path(sys.executable).with_name("jupyter-book"), "build", root]
    command += ["--builder=custom", f"--custom-builder={builder}"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"the book in {root} does not build:\n{done.stdout[-4000:]}"
    return root / "_build"


@pytest.fixture(scope="session")
def events():
    """Names of JAX's trace and compile events, appended as they happen."""
    import jax

    names = []

    def listen(name, duration, **_):
        if name.endswith(("jaxpr_trace_duration", "backend_compile_duration")):
            names.append(name.rsplit("/", 1)[1])

    jax.monitoring.register_event_duration_secs_listener(listen)
    return names


@pytest.fixture(scope="session", name="build_book")
def _build_book():
    return build_book

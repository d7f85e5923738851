"""The vendored scripts are the published ones: unchanged, with their licence."""

import hashlib
from pathlib import Path

import pytest

VENDOR = Path(__file__).resolve().parents[1] / "book" / "_static" / "vendor"


def entries():
    """The lines of VERSIONS: file, package, version, licence, sha256."""
    lines = (VENDOR / "VERSIONS").read_text("utf8").splitlines()
    return [line.split() for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("file, package, version, licence, sha256", entries())
def test_file_is_the_published_one(file, package, version, licence, sha256):
    path = VENDOR / file
    assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256, f"{file} is not {package} {version}"
    assert (path.parent / "LICENSE").exists(), f"the {licence} licence of {package} is missing"


def test_every_vendored_script_is_listed():
    files = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*.js")}
    assert files == {entry[0] for entry in entries()}

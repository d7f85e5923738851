"""Make requirements.txt anew from pyproject.toml: one lock with hashes for every supported Python.

    python book/_make/lock.py

uv resolves it, from a throw-away environment; `make lock` is the only thing that needs it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = "uv==0.13.9"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "--disable-pip-version-check", UV], check=True)
        command = (
            "uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes "
            "--no-header --no-annotate --no-emit-index-url --no-emit-find-links --output-file"
        )
        target = Path(folder) / "requirements.txt"
        subprocess.run([f"{folder}/bin/{command.split()[0]}", *command.split()[1:], target], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "UV_NO_PROGRESS": "0"})
        # Only a resolution that worked replaces the lock.
        (ROOT / "requirements.txt").write_bytes(target.read_bytes())
    print("requirements.txt is made anew; `make book` installs it.")


if __name__ == "__main__":
    main()

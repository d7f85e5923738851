"""Make the virtual environment and install the locked packages, unless that is done already.

    python book/_make/venv.py .venv

The stamp in the environment holds a hash of what was installed, so the installation runs again only when
requirements.txt or pyproject.toml changed, or another Python was chosen. Standard library only.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def base_python() -> Path:
    """The Python that environments are made from: itself, or the one behind a running environment."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def made_from(venv: Path) -> tuple[Path | None, str]:
    """The Python and the version that an existing environment was made from."""
    config = venv / "pyvenv.cfg"
    if not config.exists():
        return None, ""
    pairs = dict(line.split(" = ", 1) for line in config.read_text("utf8").splitlines() if " = " in line)
    executable = pairs.get("executable")
    return (Path(executable).resolve() if executable else None), pairs.get("version", "")


def main() -> int:
    venv = Path(sys.argv[1]).absolute()
    python = venv / "bin" / "python"
    stamp = venv / "installed.sha256"
    key = hashlib.sha256(b"".join((ROOT / f).read_bytes() for f in ("requirements.txt", "pyproject.toml")))
    key = key.hexdigest()
    version = "{}.{}.{}".format(*sys.version_info)

    # The last thing that venv puts into an environment is pip.
    same = made_from(venv) == (base_python(), version) and (venv / "bin" / "pip").exists()
    if same and stamp.exists() and stamp.read_text("utf8").strip() == key:
        return 0
    start = time.monotonic()
    if not same:
        if venv.exists():
            if not (venv / "pyvenv.cfg").exists():
                print(f"{venv} exists and is no virtual environment: remove it, or choose another with VENV=.")
                return 1
            print(f"{venv.name} was made by another Python: making it anew.", flush=True)
            shutil.rmtree(venv)
        print(f"Making {venv.name} with Python {version} ({base_python()})", flush=True)
        subprocess.run([base_python(), "-m", "venv", venv], check=True)
    stamp.unlink(missing_ok=True)

    print("Installing the locked packages (a minute or two, in silence)", flush=True)
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet"]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    for arguments in (
        ["--require-hashes", "-r", "requirements.txt"],
        ["--no-deps", "--no-build-isolation", "--editable", "."],
    ):
        result = subprocess.run([*pip, *arguments], cwd=ROOT, env=environment)
        if result.returncode:
            print("\nThe installation failed: see the last lines above. The next `make` tries again.")
            return result.returncode
    stamp.write_text(key + "\n", encoding="utf8")
    print(f"{venv.name} is ready ({time.monotonic() - start:.0f} s).", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

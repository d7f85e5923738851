"""The file of a sweep: JSON lines, of which the first says which sweep and each other one is a row."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

from trgnb.sweeps._work import Result

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

FORMAT = 1


@contextmanager
def stored(path, sweep):
    """What a file holds of a sweep, {beta: Result}, and a function (beta, result) that appends to it.

    path: where it is or shall be; None for no file.  sweep: dict of what makes it this sweep and no other.
    Python writes a float with the digits that give it back exactly.  A line is on the disk when the function returns.
    Errors: ValueError when the file is another sweep's, or damaged, and RuntimeError while another process writes it; the
    file is left as it was.
    """
    if path is None:
        yield {}, lambda beta, result: None
        return
    path = Path(path)
    with path.open("a+b") as handle:

        def append(line):
            handle.write(line)
            handle.flush()
            os.fsync(handle.fileno())

        _lock(handle, path)
        handle.seek(0)
        content = handle.read()
        header = _line({"trgnb.sweep": FORMAT, **sweep})
        # Each write is one line: what follows the last end of line was cut short by a kill, and is computed again.
        end = content.rfind(b"\n") + 1
        if end == 0 and header.startswith(content):
            handle.truncate(0)
            append(header)
            done = {}
        else:
            first, *lines = content[:end].split(b"\n")[:-1] or [content]
            _check_header(first, json.loads(header), path)
            done = dict(_read(line, number, path) for number, line in enumerate(lines, 2))
            handle.truncate(end)
        yield done, lambda beta, result: append(
            _line({"beta": beta, "lnz": result.lnz, "u": result.u, "c": result.c, "warnings": result.warnings})
        )


def _line(record):
    return json.dumps(record, allow_nan=False).encode() + b"\n"


def _lock(handle, path):
    """Keep the file for this process, until it is closed or the process ends, however it ends."""
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RuntimeError(f"another sweep is writing {path}: wait until it has finished, or give another file") from None
    except OSError:
        pass  # a file system without locks: rows of the same sweep are appended whole


def _check_header(line, expected, path):
    try:
        found = json.loads(line)
        version = found["trgnb.sweep"]
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{path} is no file of trgnb.sweep: it begins with {line[:60]!r}; give another file") from None
    if version != FORMAT:
        raise ValueError(
            f"{path} has format {version!r} of trgnb.sweep, and this version of trgnb reads and writes format {FORMAT}; "
            "give another file, or use the version that made it"
        )
    if found != expected:
        differing = [key for key in {**expected, **found} if found.get(key) != expected.get(key)]
        raise ValueError(
            f"{path} belongs to another sweep: "
            + "; ".join(f"{key} is {found.get(key)!r} in the file and {expected.get(key)!r} in this call" for key in differing)
            + ".  Give another file, or the arguments of the sweep in it (schedule is what chi and steps stand for)"
        )


def _read(line, number, path):
    """(beta, Result) of one line."""
    try:
        row = json.loads(line)
        c = row["c"]
        return float(row["beta"]), Result(
            float(row["lnz"]), float(row["u"]), None if c is None else float(c), tuple(row["warnings"])
        )
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"line {number} of {path} is no row of a sweep: {line[:60]!r}; remove the line, and its beta is computed again"
        ) from None

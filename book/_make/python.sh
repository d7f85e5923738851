#!/bin/sh
# Prints the Python to use for the virtual environment $1.
#   PYTHON set:  that one, or a sentence why not
#   otherwise:   the environment's own if there is one, else the newest of the candidates that really runs
# A version manager's shim that only prints an error does not count, nor does a Python without venv.
set -u
venv=${1:-.venv}

# Prints the real path; fails when the command does not run, is too old or cannot make an environment.
usable() {
    "$1" -c '
import sys
if sys.version_info < (3, 11): sys.exit(3)
import ensurepip, venv
print(sys.executable)' 2>/dev/null </dev/null
}

if [ -n "${PYTHON:-}" ]; then
    usable "$PYTHON" && exit 0
    case $? in
        3) echo "PYTHON=$PYTHON is $("$PYTHON" --version 2>&1): this book needs Python 3.11 or newer." >&2 ;;
        *) echo "PYTHON=$PYTHON does not run, or lacks the venv module (Debian: apt install python3-venv)." >&2 ;;
    esac
    exit 1
fi

if [ -x "$venv/bin/python" ] && usable "$venv/bin/python"; then
    exit 0
fi
for candidate in python3.13 python3.12 python3.11 python3; do
    command -v "$candidate" >/dev/null 2>&1 && usable "$candidate" && exit 0
done
{
    echo "This book needs Python 3.11 or newer with the venv module, and none of python3.13, python3.12,"
    echo "python3.11 and python3 is one (python3 here: $(python3 --version 2>&1 | head -n 1))."
    echo "Install one (Debian: apt install python3 python3-venv), or name one: make PYTHON=/path/to/python3.12 book"
} >&2
exit 1

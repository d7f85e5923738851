"""``python -m trgnb.numbers check|accept [BUILD]``: the numbers gate on an executed book."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import checks, read_accepted, read_build, settle, tally, write_accepted


def main(argv: Sequence[str] | None = None) -> int:
    """Check or accept the numbers of an executed book; return the exit code."""
    args = _parser().parse_args(argv)
    root = args.build.resolve().parent
    accepted_in = args.accepted or root / "tests" / "numbers"
    try:
        accepted, present = read_accepted(accepted_in), read_build(args.build, args.toc or root / "_toc.yml")
        looked_at = list(checks(accepted, present))
        findings = [check.finding for check in looked_at if check.finding]
        if args.action == "check":
            return _report(looked_at, findings, tally(present))
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            raise ValueError("CI is set: numbers are accepted by a person, who reads the diff, not by the machine")
        write_accepted(accepted_in, settle(accepted, present))
    except (FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    for finding in findings:
        print(finding.kind, finding.chapter, finding.name, sep="  ")
    print(f"{len(findings)} changes accepted in {accepted_in}" if findings else "Nothing to accept: all of it holds.")
    return 0


def _report(looked_at: list, findings: list, held: str) -> int:
    for finding in findings:
        print(finding, end="\n\n")
    print(held)
    print(f"{len(looked_at)} numbers and texts compared, {len(findings)} do not hold.")
    return 1 if findings or not looked_at else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trgnb.numbers", description="The numbers gate of the book.")
    parser.add_argument("action", choices=["check", "accept"])
    parser.add_argument("build", nargs="?", type=Path, default=Path("_build"), help="what Jupyter Book wrote")
    parser.add_argument("--toc", type=Path, help="default: the _toc.yml beside the build")
    parser.add_argument("--accepted", type=Path, help="default: tests/numbers beside the build")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Mutation testing: small errors are put into the code that decides, one at a time; the tests must notice.

`python -m tests.mutants` runs mutmut, and Stryker for the front end, and prints the share of each module.
What has been tried is kept in mutants/, so that a run that was stopped goes on; names of mutants run only
those.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "mutants"
SURVIVED, UNTOUCHED = 0, (5, 33)  # no test runs the function


def main(names: list[str]) -> int:
    """Runs all mutants, or those named; the exit code of what failed to run."""
    codes = [subprocess.run([sys.executable, "-m", "mutmut", "run", *names], cwd=ROOT).returncode]
    if not names and shutil.which("npm"):
        codes.append(subprocess.run(["npm", "run", "--silent", "mutants"], cwd=ROOT).returncode)
    print("\n".join(table()))
    return max(codes)


def table() -> list[str]:
    """A line for each module: its share killed, how many of how many, and who lives."""
    lines = []
    for path in sorted(RESULTS.rglob("*.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        tried = {name: code for name, code in codes.items() if code is not None}
        if tried:
            alive = [name for name, code in tried.items() if code in (SURVIVED, *UNTOUCHED)]
            killed = len(tried) - len(alive)
            module = path.relative_to(RESULTS).with_suffix("")
            lines.append(f"{killed / len(tried):4.0%}  {killed:4} of {len(tried):4}  {module}")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Installs this package for development, and shows how far pip is: `install.py EXTRA`.

pip prints hundreds of lines or, with `--quiet`, nothing for minutes. This redraws one line on a terminal;
elsewhere it prints one for every tenth package.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
EVERY = 10  # packages
REDRAW = "\r\033[K"


def main() -> int:
    """Runs pip; its exit status."""
    (extra,) = sys.argv[1:]
    options = ["--disable-pip-version-check", "install", "--progress-bar=off", "--editable", f".[{extra}]"]
    command = [sys.executable, "-m", "pip", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as pip:
        is_terminal = sys.stdout.isatty()
        for number, text in enumerate(progress(pip.stdout or ()), 1):
            if is_terminal:
                print(f"{REDRAW}make: {text}", end="", flush=True)
            elif number % EVERY == 0 or text.startswith("installing"):
                print(f"make: {text}", flush=True)
        print(end=REDRAW if is_terminal else "", flush=True)
    return pip.returncode


def progress(lines: Iterable[str]) -> Iterator[str]:
    """What to show for pip's lines: a package that was found, then that all are installed."""
    found = 0
    for line in lines:
        first, *words = line.split() or [""]
        if first == "Collecting":
            found += 1
            yield f"package {found}: {words[0]}"
        elif line.startswith("Installing collected packages:"):
            yield f"installing {len(words) - 2} package{'s' * (len(words) > 3)}"


if __name__ == "__main__":
    sys.exit(main())

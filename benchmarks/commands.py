"""What a shell command costs as a whole process, in CPU time, beside a script in its place.

One job is listed against an import of pandas, many against a script that reads as many JSON files, a small
log against one that puts it into a DataFrame with pandas. Best of some runs, taken in turns.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.jobs.history import HISTORY, Home
from benchmarks.row import Row, table

RUNS = 5
COMMAND = (sys.executable, "-c", "from batchai_magics.cli import program; program()")
READ_FILES = """
import json, pathlib, sys
paths = sorted(pathlib.Path(sys.argv[1]).iterdir())
json.dump([json.loads(path.read_text()) for path in paths], sys.stdout, indent=2)
"""
READ_LOG = r"""
import re, sys, pandas
steps = re.findall(r"(?m)^(\d+)\timages/sec: ([\d.]+) .*\t([\d.]+)$", open(sys.argv[1]).read())
print(pandas.DataFrame(steps, columns=["step", "images_per_sec", "loss"]).to_json(orient="records", indent=2))
"""


def rows() -> Iterator[Row]:
    """Lists of one, of all and of a few of many jobs; the numbers of a small log."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        Home(place / "one")
        Home(place / "full").add_history(HISTORY)
        files, log = place / "files", place / "train.log"
        log.write_text(
            "".join(f"{step}\timages/sec: 400.1 +/- 1.0 (jitter = 2.0)\t7.900\n" for step in range(100))
        )
        write_files(files, HISTORY)
        many = f"script over {HISTORY:,} files"
        pandas = (sys.executable, "-c", "import pandas")
        listing, script = ("job", "list", "-o", "json"), (sys.executable, "-c", READ_FILES)
        yield row("job list of one", (place / "one", *listing), "import pandas", pandas)
        yield row(f"job list of {HISTORY:,}", (place / "full", *listing), many, (*script, files))
        yield row(
            f"job list --top 20 of {HISTORY:,}",
            (place / "full", *listing, "--top", "20"),
            many,
            (*script, files),
        )
        reading = place / "one", "metrics", "read", log, "-o", "json"
        yield row(
            "metrics read of 100 lines", reading, "re and pandas", (sys.executable, "-c", READ_LOG, log)
        )


def write_files(folder: Path, count: int) -> None:
    """As many descriptions of jobs as there are in the history."""
    folder.mkdir()
    job = {f"field{number}": "some text" for number in range(40)}
    for number in range(count):
        (folder / f"{number}.json").write_text(json.dumps({"name": f"old{number}", **job}))


def row(what: str, ours: Sequence[object], against: str, theirs: Sequence[object]) -> Row:
    """A command in its home against another program, in turns."""
    home, *words = ours
    turns = [(cpu_s((*COMMAND, *words), {"BATCHAI_HOME": str(home)}), cpu_s(theirs, {})) for _ in range(RUNS)]
    least = [min(times) for times in zip(*turns, strict=True)]
    return Row(f"batchai {what}: CPU", least[0], against, least[1], "s")


def cpu_s(command: Sequence[object], env: Mapping[str, str]) -> float:
    """The CPU time of a whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = list(map(str, command))
    subprocess.run(words, env={**os.environ, **env}, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    print(table(rows()))

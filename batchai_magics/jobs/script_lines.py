"""The cell's script in a traceback: which lines of it are which lines of the notebook cell. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from batchai_magics.models.resources import JobResource

FIRST_LINE = 2  # of the script in its cell; the magic line is line 1

_SCRIPT = re.compile(r"\$(?:\{AZ_BATCHAI_INPUT_SCRIPT\}|AZ_BATCHAI_INPUT_SCRIPT)/([\w.-]+\.py)\b")
_RUN = re.compile(r"-\d+$")
_PLACE = re.compile(r'File "(?P<folder>[^"\n]*[/\\])?(?P<file>[^"/\\\n]+)", line (?P<line>\d+)')


def script_name(job: JobResource) -> str:
    """The file name of the script that was the cell's body; empty for a job without one."""
    found = _SCRIPT.search(job.spec.settings.model_dump_json())
    own = (f"{job.id.name}.py", f"{_RUN.sub('', job.id.name)}.py")
    return found[1] if found and found[1] in own else ""


def with_cell_lines(lines: Sequence[str], script: str) -> list[str]:
    """The lines of a log; one that names a line of the script says which line of the cell it is.

    The folder that the script lay in tells nobody anything, and is left out.
    """
    return [_with_cell_line(line, script) for line in lines]


def _with_cell_line(line: str, script: str) -> str:
    place = _PLACE.search(line) if script else None
    if place is None or place["file"] != script:
        return line
    short = line.replace(place["folder"] or "", "", 1)
    return f"{short}  ← line {int(place['line']) + FIRST_LINE - 1} of the cell"

"""The program beside a run that watches it: what it prints becomes notes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from batchai_magics.backends.node.watch_process import watching

pytestmark = pytest.mark.slow
PROGRAM = """
from batchai_magics.backends.node.watch_process import end_signal
end_signal().wait()
print(*{notes}, sep="\\n")
"""


@pytest.mark.parametrize("notes", [[], ["one"], ["one", "two"]])
def test_each_line_that_is_not_empty_is_a_note(notes: list[str], tmp_path: Path) -> None:
    found: list[str] = []
    args = [sys.executable, "-c", PROGRAM.format(notes=notes)]
    with watching(args, log=tmp_path / "log", warn=found.append):
        pass
    assert found == notes

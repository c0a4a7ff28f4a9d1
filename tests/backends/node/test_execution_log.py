"""The line in a log with which an attempt begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.node.restarts import mark_attempt

SENTENCE = "attempt 2 begins on node1, node2: its node was lost"


@pytest.mark.parametrize(
    ("before", "between"),
    [(b"", b""), (b"step 1\n", b""), (b"step 1\nste", b"\n")],
    ids=["none", "whole", "cut"],
)
def test_it_stands_in_a_line_of_its_own(tmp_path: Path, before: bytes, between: bytes) -> None:
    log = tmp_path / "stdout.txt"
    log.write_bytes(before)
    assert mark_attempt(log, 2, ["node1", "node2"], "its node was lost") == SENTENCE
    assert log.read_bytes() == before + between + f"[batchai] {SENTENCE}\n".encode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_loses_the_line_alone() -> None:
    assert mark_attempt(Path("/dev/full"), 2, ["node1", "node2"], "its node was lost") == SENTENCE

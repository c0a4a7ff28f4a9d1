"""Commands that mount what a user names: what they say when they fail."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.backends.node import requirements


def test_why_a_mount_command_failed_is_said_in_its_own_words_and_no_more(tmp_path: Path) -> None:
    place = tmp_path / "data"
    assert requirements.mount_problem(place, 32, "no\n such  server\n") == (
        "data could not be mounted: no such server (exit code 32)"
    )
    assert requirements.mount_problem(place, 5, " ").endswith("mounted: exit code 5")
    assert len(requirements.mount_problem(place, 1, "x" * 9999)) < requirements.MAX_MESSAGE_LENGTH + 100
    assert "nothing is mounted" in requirements.mount_problem(place, 0, "")


def test_a_mount_path_with_blanks_stays_one_word() -> None:
    assert requirements.mount_line("mount -t x", Path("/a b"))[-1] == "mount -t x '/a b'"

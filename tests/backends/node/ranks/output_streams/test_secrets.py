"""Where a secret was printed is noted before anybody can read it."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.backends.node.ranks.output_streams import LogWriter, ProcessStream
from batchai_magics.launch.plan import LogPaths
from tests.backends.node.ranks.output_streams.logs import hidden, stream, watched, written


def secretive(folder: Path, number: int = 0, *, is_shared: bool = True) -> ProcessStream:
    spans = str(folder / "spans") if is_shared else ""
    log = LogPaths(str(folder / "out"), spans, hidden=str(folder / "hidden"))
    return ProcessStream(LogWriter(log, (b"hunter2",)), number)


def test_where_a_secret_is_printed_is_noted(tmp_path: Path) -> None:
    first, second = secretive(tmp_path, 0), secretive(tmp_path, 1)
    first.feed(b"none here\nit is hun")
    second.feed(b"hunter2 of another\n")
    first.feed(b"ter2!\n")
    first.finish()
    assert written(tmp_path) == b"none here\nhunter2 of another\nit is hunter2!\n"
    assert hidden(tmp_path) == [(10, 17), (35, 42)]


def test_a_secret_is_noted_before_anybody_can_read_it(tmp_path: Path, monkeypatch) -> None:
    out = secretive(tmp_path)
    seen = watched(monkeypatch, tmp_path, lambda _: (tmp_path / "out").stat().st_size)
    out.feed(b"hunter2\n")
    assert seen == [0, 0, 8]  # the place, then the line, then whose it is


def test_a_pause_within_a_secret_does_not_show_its_beginning(tmp_path: Path) -> None:
    out = secretive(tmp_path, is_shared=False)
    out.feed(b"token: hun")
    out.write_unfinished()
    assert written(tmp_path) == b"token: "
    out.feed(b"ter2")
    out.write_unfinished()
    assert written(tmp_path) == b"token: hunter2"
    assert hidden(tmp_path) == [(7, 14)]


def test_what_only_looked_like_a_secret_is_written_at_the_end(tmp_path: Path) -> None:
    out = secretive(tmp_path, is_shared=False)
    out.feed(b"token: hun")
    out.write_unfinished()
    out.finish()
    assert written(tmp_path) == b"token: hun"
    assert hidden(tmp_path) == []


def test_a_secret_in_a_file_of_ones_own_is_noted_by_its_place_there(tmp_path: Path) -> None:
    own = LogPaths(str(tmp_path / "own"), hidden=str(tmp_path / "hidden"))
    log = LogPaths(str(tmp_path / "out"), str(tmp_path / "spans"))
    stream(tmp_path, 1).feed(b"another's\n")
    ProcessStream(LogWriter(log), 0, LogWriter(own, (b"hunter2",))).feed(b"hunter2\n")
    assert hidden(tmp_path) == [(0, 7)]

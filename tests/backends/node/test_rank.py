"""What a rank's output becomes on its way to the job's files, and what its program leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from batchai_magics.backends.node import programs, rank
from batchai_magics.backends.node.rank import SPAN, STAMP, Stream, rank_of_launcher, write_all
from batchai_magics.launch.plan import VERSION, Limits, LogFile, Node, Output, Plan, Process
from tests.world import until


def stream(folder: Path, number: int = 0, *, is_shared: bool = True) -> Stream:
    log = LogFile(str(folder / "out"), str(folder / "spans") if is_shared else "", str(folder / "times"))
    return Stream(log, number, grace_s=0.05)


def written(folder: Path) -> bytes:
    return (folder / "out").read_bytes()


def spans(folder: Path) -> list[tuple[int, int, int]]:
    return list(SPAN.iter_unpack((folder / "spans").read_bytes()))


# -- whole lines ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "expected"), [(b"abc", b"abc\n"), (b"abc\n", b"abc\n"), (b"10%\r", b"10%\r"), (b"", b"")]
)
def test_a_shared_ranks_last_unended_line_is_ended(tmp_path: Path, last: bytes, expected: bytes) -> None:
    out = stream(tmp_path)
    out.feed(last)
    out.finish()
    assert written(tmp_path) == expected
    assert spans(tmp_path) == ([(0, len(expected), 0)] if expected else [])


def test_a_line_that_came_in_pieces_is_ended_once(tmp_path: Path) -> None:
    out = stream(tmp_path)
    for piece in (b"a\nb", b"c", b"d\ne"):
        out.feed(piece)
    assert written(tmp_path) == b"a\nbcd\n"
    out.finish()
    assert written(tmp_path) == b"a\nbcd\ne\n"


def test_a_lone_processs_output_stays_as_it_is(tmp_path: Path) -> None:
    out = stream(tmp_path, is_shared=False)
    out.feed(b"a\nno end")
    out.finish()
    assert written(tmp_path) == b"a\nno end"
    assert not (tmp_path / "spans").exists()


def test_a_quiet_shared_rank_shows_its_progress_and_keeps_what_follows(tmp_path: Path) -> None:
    out = stream(tmp_path)
    out.feed(b"10%\r20%\r30")
    assert written(tmp_path) == b""
    out.idle()
    assert written(tmp_path) == b"10%\r20%\r"
    out.feed(b"% done\n")
    assert written(tmp_path) == b"10%\r20%\r30% done\n"


def test_a_quiet_lone_process_shows_its_unfinished_line(tmp_path: Path) -> None:
    out = stream(tmp_path, is_shared=False)
    out.feed(b"password: ")
    assert written(tmp_path) == b""
    out.idle()
    assert written(tmp_path) == b"password: "


def test_what_is_kept_of_a_quiet_rank_still_counts_against_the_longest_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(rank, "LONGEST_LINE", 8)
    out = stream(tmp_path)
    out.feed(b"\r12345")
    out.idle()
    out.feed(b"6789")
    assert written(tmp_path) == b"\r123456789\n"


def test_a_line_too_long_to_keep_is_cut_in_whole_lines(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(rank, "LONGEST_LINE", 8)
    out = stream(tmp_path)
    out.feed(b"12345678")
    assert written(tmp_path) == b""
    out.feed(b"9")
    assert written(tmp_path) == b"123456789\n"
    out.feed(b"rest\n")
    assert written(tmp_path) == b"123456789\nrest\n"


# -- who wrote what, when ------------------------------------------------------


def test_each_ranks_bytes_are_its_own_span(tmp_path: Path) -> None:
    first, second = stream(tmp_path, 3), stream(tmp_path, 5)
    first.feed(b"one\n")
    second.feed(b"second\n")
    first.feed(b"three\n")
    assert spans(tmp_path) == [(0, 4, 3), (4, 11, 5), (11, 17, 3)]


def test_nobody_else_writes_while_a_rank_notes_what_it_wrote(tmp_path: Path, monkeypatch) -> None:
    """Another rank, and even a reader with a shared lock, is kept out until the span is noted."""
    held: list[bool] = []

    def watched(file: int, data: bytes, grace_s: float) -> None:
        with (tmp_path / "out").open("rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
                held.append(False)
            except BlockingIOError:
                held.append(True)
        write_all(file, data, grace_s)

    monkeypatch.setattr(rank, "write_all", watched)
    stream(tmp_path).feed(b"line\n")
    assert held == [True, True, True]  # the time, the line, the span
    with (tmp_path / "out").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and let go of again


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_time_is_noted_before_its_line_and_not_for_every_line(tmp_path, monkeypatch, is_shared) -> None:
    now = {"s": 100.0}
    clock = SimpleNamespace(time=lambda: now["s"], monotonic=lambda: now["s"], sleep=lambda _: None)
    monkeypatch.setattr(rank, "time", clock)
    order: list[int] = []
    monkeypatch.setattr(rank, "write_all", lambda *args: (order.append(len(args[1])), write_all(*args)))
    out = stream(tmp_path, is_shared=is_shared)
    for moment in (100.0, 100.0625, 100.125, 50.0):  # a clock set back counts too
        now["s"] = moment
        out.feed(b"line\n")
    found = list(STAMP.iter_unpack((tmp_path / "times").read_bytes()))
    assert found == [(0, 100.0), (10, 100.125), (15, 50.0)]
    assert order[:2] == [STAMP.size, 5]


def test_without_a_file_of_times_none_is_noted(tmp_path: Path) -> None:
    out = Stream(LogFile(str(tmp_path / "out")), 0, grace_s=0.05)
    out.feed(b"line\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# -- a full disk ---------------------------------------------------------------


def test_a_disk_that_stays_full_is_given_up_on() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="No space"):
        write_all(full.fileno(), b"x", 0.05)


def test_a_disk_that_has_room_again_gets_all_that_waited() -> None:
    """A pipe that takes no more stands for the disk."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    data = os.urandom(1 << 18)  # more than a pipe holds
    writer = threading.Thread(target=write_all, args=(write, data, 60.0))
    writer.start()
    with os.fdopen(read, "rb") as end:
        assert end.read(len(data)) == data
    writer.join()
    os.close(write)


def test_every_byte_that_is_taken_starts_the_grace_anew(monkeypatch) -> None:
    now, taken = [0.0], bytearray()

    def slow_disk(_: int, data: memoryview) -> int:
        now[0] += 0.9
        if int(now[0] / 0.9) % 2:
            raise OSError("full")
        taken.extend(data[:1])
        return 1

    monkeypatch.setattr(rank, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None))
    monkeypatch.setattr(rank, "os", SimpleNamespace(write=slow_disk))
    write_all(1, b"abcdef", 1.0)
    assert taken == b"abcdef"


# -- the program ---------------------------------------------------------------


def plan(folder: Path, *commands: str, stdout: LogFile | None = None, own: Output | None = None) -> Path:
    """The plan of processes on one node."""
    (folder / "exits").mkdir()
    env = {"WHO": "node", "BOTH": "node"}
    made = Plan(
        guid="the-guid",
        nodes=(Node("node-0", str(folder), "/the/tmp", env),),
        processes=tuple(
            Process(rank, 0, command, env={"BOTH": "process"}, output=own)
            for rank, command in enumerate(commands)
        ),
        output=Output(stdout or LogFile(str(folder / "stdout")), LogFile(str(folder / "stderr"))),
        exits=str(folder / "exits"),
        python=sys.executable,
        limits=Limits(disk_grace_s=0.05),
    )
    made.write(str(folder / "plan.json"))
    return folder / "plan.json"


def start(plan_file: Path, *index: str, program: str = rank.__file__, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-S", program, str(plan_file), *index], env=env, cwd="/")


def exit_of(folder: Path, index: int = 0) -> dict[str, object]:
    body: dict[str, object] = json.loads((folder / "exits" / str(index)).read_text())
    return body


@pytest.mark.slow
def test_a_process_gets_its_nodes_variables_and_its_own_over_them(tmp_path: Path) -> None:
    file = plan(tmp_path, "echo $OUTER $WHO $BOTH $BATCHAI_JOB_GUID $TMPDIR; pwd")
    assert start(file, "0", OUTER="outer", WHO="outer").wait() == 0
    said = (tmp_path / "stdout").read_text().split()
    assert said == ["outer", "node", "process", "the-guid", "/the/tmp", str(tmp_path)]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0)])
def test_the_exit_code_is_that_of_the_process(tmp_path: Path, command: str, code: int) -> None:
    assert start(plan(tmp_path, "true", command), "1").wait() == code
    body = exit_of(tmp_path, 1)
    assert (body["rank"], body["node"], body["exit_code"]) == (1, "node-0", code)
    assert [path.name for path in (tmp_path / "exits").iterdir()] == ["1"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PMI_RANK", "PMI_ID"])
def test_the_launcher_says_which_rank_a_process_is(tmp_path: Path, name: str) -> None:
    assert start(plan(tmp_path, "exit 1", "exit 2"), **{name: "1"}).wait() == 2


def test_the_rank_of_a_descriptor_goes_before_that_of_a_port(monkeypatch) -> None:
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_ID", "2")
    assert rank_of_launcher() == "1"


@pytest.mark.slow
def test_what_a_process_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """It holds the pipes open, and is in the process's group: nobody waits for it."""
    assert start(plan(tmp_path, "sleep 1000 & echo $!"), "0").wait() == 0
    left = int((tmp_path / "stdout").read_text())
    until(lambda: not is_running(left))


@pytest.mark.slow
def test_a_process_ends_when_its_ranks_program_is_told_to(tmp_path: Path) -> None:
    child = start(plan(tmp_path, "echo $$; trap '' TERM; while true; do sleep 0.05; done"), "0")
    own = started(tmp_path)
    child.terminate()
    assert child.wait() == 143
    until(lambda: not is_running(own))
    assert not list((tmp_path / "exits").iterdir())


@pytest.mark.slow
def test_a_process_ends_when_its_ranks_program_is_killed(tmp_path: Path) -> None:
    child = start(plan(tmp_path, "echo $$; exec sleep 1000"), "0")
    own = started(tmp_path)
    child.kill()
    child.wait()
    until(lambda: not is_running(own))


@pytest.mark.slow
def test_a_process_whose_output_cannot_be_kept_is_ended(tmp_path: Path) -> None:
    file = plan(tmp_path, "echo lost; sleep 1000", stdout=LogFile("/dev/full"))
    assert start(file, "0").wait() == rank.EX_IOERR
    assert not list((tmp_path / "exits").iterdir())


@pytest.mark.slow
def test_a_process_has_log_files_of_its_own_where_the_plan_says_so(tmp_path: Path) -> None:
    own = Output(LogFile(str(tmp_path / "own-out")), LogFile(str(tmp_path / "own-err")))
    file = plan(tmp_path, "echo out; echo err >&2", own=own)
    assert start(file, "0").wait() == 0
    assert [(tmp_path / name).read_text() for name in ("own-out", "own-err")] == ["out\n", "err\n"]
    assert not (tmp_path / "stdout").exists()


@pytest.mark.slow
def test_a_copy_of_the_programs_runs_a_rank_without_the_package(tmp_path: Path) -> None:
    programs.copy_to(tmp_path / "elsewhere")
    file = plan(tmp_path, "echo far away; exit 3")
    child = start(file, "0", program=str(tmp_path / "elsewhere" / "rank.py"))
    assert child.wait() == 3
    assert (tmp_path / "stdout").read_text() == "far away\n"
    assert exit_of(tmp_path)["exit_code"] == 3


@pytest.mark.slow
def test_a_plan_of_another_version_stops_a_rank_with_the_reason(tmp_path: Path) -> None:
    file = plan(tmp_path, "true")
    file.write_text(file.read_text().replace(f'"version": {VERSION}', '"version": 99'))
    argv = [sys.executable, "-I", "-S", rank.__file__, str(file), "0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"version 99, and this program reads version {VERSION}" in done.stderr


def started(folder: Path) -> int:
    """The process id that the process has written."""
    file = folder / "stdout"
    until(lambda: file.exists() and file.read_bytes().endswith(b"\n"))
    return int(file.read_text())


def is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False

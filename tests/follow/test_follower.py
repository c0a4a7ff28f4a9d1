"""What each look at a job tells, from a backend whose state and log the test writes itself."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace

import pytest

from batchai_magics.backends.base import Chunk, FileKind, FileRef, OutputFile, Seal, Span, Written
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.follow import (
    Follower,
    LogBytes,
    LogFault,
    MetricsSeen,
    NodesChanged,
    QueueSeen,
    StateChanged,
    endings,
    events,
    records_in,
)
from batchai_magics.follow import follower as follower_module
from batchai_magics.follow.numbers import MANY_BYTES, numbers_in
from batchai_magics.follow.queue import LONGEST_PAUSE_S, LOOK_S, Queue
from batchai_magics.metrics import Parser, StepRecord
from batchai_magics.models.cluster import NodeStateCounts
from batchai_magics.models.ids import Kind
from batchai_magics.models.resources import Node
from batchai_magics.models.states import ExecutionState, NodeState
from tests.widgets.place import EXPERIMENT, Place
from tests.widgets.scripted import JOB, ScriptedBackend, resource, step_line

STDOUT = FileRef(JOB, "stdout.txt")


@pytest.fixture
def backend(tmp_path):
    return ScriptedBackend(tmp_path)


@pytest.fixture
def follower(backend):
    made = Follower(backend, JOB)
    made.poll()
    return made


def steps(news):
    seen = [record for event in news if isinstance(event, MetricsSeen) for record in event.records]
    return [(record.step, record.rank) for record in seen if isinstance(record, StepRecord)]


def plain_step(step):
    return step_line(step).partition(":")[2]


def log(news):
    return [(e.file.path, e.chunk.data, e.restarted) for e in news if isinstance(e, LogBytes)]


def states(news):
    return [event.job.state.value for event in news if isinstance(event, StateChanged)]


def cut(backend, text, file="stdout.txt"):
    (backend.folder / file).write_text(text)


# the state and the nodes


def test_a_state_is_told_once(backend):
    follower = Follower(backend, JOB)
    assert states(follower.poll()) == ["running"]
    assert follower.poll() == []


def test_what_a_job_tells_about_itself_is_new_also_in_the_same_state(backend, follower):
    backend.job = replace(backend.job, output_path_segment="elsewhere")
    assert states(follower.poll()) == ["running"]


def test_nodes_are_told_when_they_are_new(backend, follower):
    backend.counts = NodeStateCounts(running_node_count=1, leaving_node_count=1)
    (event,) = follower.poll()
    assert event == NodesChanged(JOB, backend.counts, backend.counts)
    assert follower.poll() == []


def test_news_is_not_lost_when_a_later_question_fails(backend, monkeypatch):
    follower = Follower(backend, JOB)
    with monkeypatch.context() as broken:
        broken.setattr(backend, "tail", failing)
        with pytest.raises(StorageError):
            follower.poll()
    told = follower.poll()
    assert states(told) == ["running"]
    assert NodesChanged(JOB, backend.counts, backend.counts) in told
    assert follower.poll() == []


def test_a_log_is_not_lost_when_another_cannot_be_read(backend, monkeypatch):
    backend.write("out\n")
    read = backend.read
    follower = Follower(backend, JOB, [STDOUT, FileRef(JOB, "stderr.txt")])
    with monkeypatch.context() as broken:
        broken.setattr(backend, "read", lambda file, *at: read(file, *at) if file == STDOUT else failing())
        with pytest.raises(StorageError):
            follower.poll()
    assert log(follower.poll()) == [("stdout.txt", b"out\n", False)]


def failing(*_, **__):
    raise StorageError("not now")


def test_a_job_without_its_cluster_is_followed_to_its_end(backend, monkeypatch):
    def show(id):
        if id.kind is Kind.CLUSTER:
            raise NotFoundError("gone")
        return backend.job

    monkeypatch.setattr(backend, "show", show)
    follower = Follower(backend, JOB)
    follower.poll()
    backend.finish()
    assert states(follower.poll()) == ["succeeded"]


def test_nothing_is_told_after_the_end(backend, follower):
    backend.finish()
    assert states(follower.poll()) == ["succeeded"]
    assert follower.is_over
    backend.write("more\n")
    assert follower.poll() == []


# the log


def test_new_bytes_are_told_once(backend, follower):
    backend.write("one\n")
    assert log(follower.poll()) == [("stdout.txt", b"one\n", False)]
    backend.write("two\n")
    assert log(follower.poll()) == [("stdout.txt", b"two\n", False)]
    assert follower.poll() == []


def test_the_last_bytes_come_before_the_final_state(backend, follower):
    backend.write("last\n")
    backend.finish()
    *_, before, last = follower.poll()
    assert log([before]) == [("stdout.txt", b"last\n", False)]
    assert states([last]) == ["succeeded"]


def test_the_numbers_of_an_unended_last_line_come_before_the_final_state(backend, follower):
    backend.write(step_line(10) + step_line(20, rank=1).removesuffix("\n"))
    assert steps(follower.poll()) == [(10, 0)]
    backend.finish()
    *_, before, last = follower.poll()
    assert steps([before]) == [(20, 1)]
    assert states([last]) == ["succeeded"]


def test_a_cut_log_is_read_anew_with_nothing_kept_of_its_last_line(backend, follower):
    backend.write(plain_step(10) + "1")
    follower.poll()
    cut(backend, plain_step(3))
    news = follower.poll()
    assert log(news) == [("stdout.txt", plain_step(3).encode(), True)]
    assert steps(news) == [(3, None)]


def test_a_parser_that_begins_anew_knows_the_users_patterns(backend):
    follower = Follower(backend, JOB, patterns={"score": r"score=(\d+)"})
    backend.write("score=10\n" * 20)
    follower.poll()
    cut(backend, "score=7\n")
    (seen,) = [event for event in follower.poll() if isinstance(event, MetricsSeen)]
    assert [record.value for record in seen.records] == [7]


def test_a_log_that_was_emptied_is_told_although_it_has_no_bytes(backend, follower):
    backend.write("one\n")
    follower.poll()
    cut(backend, "")
    assert log(follower.poll()) == [("stdout.txt", b"", True)]
    assert follower.poll() == []


def test_a_log_that_was_cut_and_has_grown_beyond_what_is_known_starts_again(backend, follower):
    backend.write("".join(map(plain_step, range(1, 4))))
    follower.poll()
    anew = "".join(map(plain_step, range(11, 19)))
    cut(backend, anew)
    news = follower.poll()
    assert log(news) == [("stdout.txt", anew.encode(), True)]
    assert steps(news) == [(step, None) for step in range(11, 19)]


def test_a_log_that_was_rotated_starts_again(backend, follower):
    backend.write("same\n" * 100)
    follower.poll()
    (backend.folder / "stdout.txt").rename(backend.folder / "kept")
    backend.write("same\n" * 200)
    assert ("stdout.txt", b"same\n" * 200, True) in log(follower.poll())
    assert follower.poll() == []


def test_a_growing_log_does_not_start_again(backend, follower):
    for _ in range(200):  # its first bytes become known meanwhile
        backend.write("ab\n")
        assert log(follower.poll()) == [("stdout.txt", b"ab\n", False)]


def test_a_log_that_became_another_one_of_its_length_is_told_at_the_end(backend, follower):
    backend.write("one\n")
    follower.poll()
    cut(backend, "two\n")
    backend.finish()
    assert log(follower.poll()) == [("stdout.txt", b"two\n", True)]
    assert follower.is_over


def test_a_log_that_is_gone_at_the_end_keeps_what_is_known(backend, follower):
    backend.write("one\n")
    follower.poll()
    (backend.folder / "stdout.txt").unlink()
    backend.finish()
    assert log(follower.poll()) == []
    assert follower.is_over


def faults(news):
    return [event.fault for event in news if isinstance(event, LogFault)]


@pytest.mark.parametrize(("text", "fault"), [("one\ntwo\n", ""), ("one\nt", "3 of its 8 bytes are missing")])
def test_a_finished_log_is_held_against_what_was_written(backend, text, fault):
    digest = hashlib.sha256(b"one\ntwo\n").hexdigest()
    read = backend.read
    backend.read = lambda *asked: replace(read(*asked), seal=Seal(8, digest))
    follower = Follower(backend, JOB)
    backend.write(text[:4])
    follower.poll()
    backend.write(text[4:])
    backend.finish()
    news = follower.poll()
    assert faults(news) == ([fault] if fault else [])
    assert isinstance(news[-1], StateChanged)


def test_only_stdout_of_the_log_directory_has_metrics(backend, follower):
    backend.write(step_line(1), "stderr.txt")
    news = follower.poll()
    assert [path for path, *_ in log(news)] == ["stderr.txt"]
    assert steps(news) == []
    other = Follower(backend, JOB, [FileRef(JOB, "stdout.txt", "MODEL")])
    backend.write(step_line(1))
    assert steps(other.poll()) == []


def test_folders_are_not_read(backend, monkeypatch):
    listed = [OutputFile("models", FileKind.DIRECTORY, 4096), OutputFile("stdout.txt", FileKind.FILE, 3)]
    monkeypatch.setattr(backend, "files", lambda job: listed)
    (backend.folder / "models").mkdir()
    backend.write("abc")
    assert [path for path, *_ in log(Follower(backend, JOB).poll())] == ["stdout.txt"]


def test_named_files_are_followed_and_no_others(backend):
    follower = Follower(backend, JOB, [FileRef(JOB, "late.txt")])
    backend.write("not asked for\n")
    assert log(follower.poll()) == []
    backend.write("here", "late.txt")
    assert log(follower.poll()) == [("late.txt", b"here", False)]
    cut(backend, "a", "late.txt")
    assert log(follower.poll()) == [("late.txt", b"a", True)]


def test_a_long_log_comes_in_several_looks_and_the_end_waits_for_the_last(backend, monkeypatch):
    monkeypatch.setattr(follower_module, "PIECE_BYTES", 2)
    monkeypatch.setattr(follower_module, "MOST_PIECES", 3)
    backend.write("0123456789")
    backend.finish()
    follower = Follower(backend, JOB)
    first = follower.poll()
    assert [data for _, data, _ in log(first)] == [b"01", b"23", b"45"]
    assert (states(first), follower.is_behind, follower.is_over) == ([], True, False)
    second = follower.poll()
    assert [data for _, data, _ in log(second)] == [b"67", b"89"]
    assert (states(second), follower.is_behind, follower.is_over) == (["succeeded"], False, True)


def test_a_long_file_that_was_asked_for_comes_in_several_looks_too(backend, monkeypatch):
    monkeypatch.setattr(follower_module, "PIECE_BYTES", 2)
    monkeypatch.setattr(follower_module, "MOST_PIECES", 3)
    backend.write("0123456789")
    backend.finish()
    follower = Follower(backend, JOB, files=[STDOUT])
    first = follower.poll()
    assert [data for _, data, _ in log(first)] == [b"01", b"23", b"45"]
    assert (states(first), follower.is_behind, follower.is_over) == ([], True, False)
    assert states(follower.poll()) == ["succeeded"]


def test_what_a_queued_job_waits_for_is_not_known_where_its_cluster_is_gone(backend, monkeypatch):
    def gone(id):
        raise NotFoundError("gone", code="ClusterNotFound")

    monkeypatch.setattr(backend, "nodes", gone)
    queue = Queue(backend, JOB, clock=lambda: 0.0)
    assert queue.news(resource(ExecutionState.QUEUED)) == [QueueSeen(JOB)]


def test_a_queue_is_looked_at_from_time_to_time_and_told_when_it_has_changed(backend):
    now, queued = [0.0], resource(ExecutionState.QUEUED)
    queue = Queue(backend, JOB, clock=lambda: now[0])
    assert queue.news(backend.job) == []  # it runs
    assert queue.news(queued) == [QueueSeen(JOB, ("resnet",))]
    backend.finish()
    now[0] = LOOK_S - 0.1
    assert queue.news(queued) == []
    now[0] = LOOK_S
    assert queue.news(queued) == [QueueSeen(JOB)]
    now[0] *= 2
    assert queue.news(queued) == []


@pytest.mark.parametrize(
    ("waited_s", "spent_s", "pause_s"),
    [(60.0, 0.0, LOOK_S), (0.0, 0.25, 5.0), (0.0, 60.0, LONGEST_PAUSE_S)],
    ids=["a look that waits on a busy machine", "one that costs", "one that costs more than that"],
)
def test_a_queue_is_looked_at_less_often_the_more_a_look_costs(backend, waited_s, spent_s, pause_s):
    now, spent, queued = [0.0], [0.0], resource(ExecutionState.QUEUED)
    nodes = backend.nodes

    def dear(id):
        now[0] += waited_s
        spent[0] += spent_s
        return nodes(id)

    backend.nodes = dear
    queue = Queue(backend, JOB, clock=lambda: now[0], spent=lambda: spent[0])
    assert queue.news(queued) == [QueueSeen(JOB, ("resnet",))]
    backend.finish()
    now[0] += pause_s - 0.01
    assert queue.news(queued) == []
    now[0] += 0.01
    assert queue.news(queued) == [QueueSeen(JOB)]


def test_a_job_of_another_experiment_is_told_with_its_experiment(backend, monkeypatch):
    other = JOB.workspace_id.child(Kind.EXPERIMENT, "theirs").child(Kind.JOB, "long")
    monkeypatch.setattr(backend, "nodes", lambda id: [Node("n", NodeState.RUNNING, other)])
    seen = Queue(backend, JOB, clock=lambda: 0.0).news(resource(ExecutionState.QUEUED))
    assert seen == [QueueSeen(JOB, ("theirs/long",))]


def test_one_file_that_is_behind_is_not_forgotten_for_one_that_is_not(backend, monkeypatch):
    monkeypatch.setattr(follower_module, "PIECE_BYTES", 2)
    monkeypatch.setattr(follower_module, "MOST_PIECES", 1)
    backend.write("0123", "a.txt")
    backend.finish()
    follower = Follower(backend, JOB)
    backend.write("x", "b.txt")
    follower.poll()
    assert (follower.is_behind, follower.is_over) == (True, False)


# the loop


class Waits:
    """Notes how long the loop waits; `then` happens at given waits, and the loop stops at the last."""

    def __init__(self, most, then=None):
        self.stop, self.told, self.most, self.then = threading.Event(), [], most, then or {}

    def __call__(self, seconds):
        self.told.append(seconds)
        self.then.get(len(self.told), lambda: None)()
        if len(self.told) == self.most:
            self.stop.set()


def test_the_loop_waits_longer_while_nothing_happens_and_briefly_after_news(backend):
    waits = Waits(13, {11: lambda: backend.write("news\n")})
    list(events(backend, JOB, stop=waits.stop, wait=waits))
    growing = [0.05, 0.065, 0.0845, 0.1098, 0.1428, 0.1856, 0.2413, 0.3137, 0.4079, 0.5, 0.5]
    assert waits.told == pytest.approx([*growing, 0.05, 0.065], abs=1e-3)


def test_the_loop_does_not_wait_while_there_is_more_to_read(backend, monkeypatch):
    monkeypatch.setattr(follower_module, "PIECE_BYTES", 1)
    monkeypatch.setattr(follower_module, "MOST_PIECES", 1)
    backend.write("0123456789")
    backend.finish()
    waits = Waits(1)
    assert states(list(events(backend, JOB, wait=waits))) == ["succeeded"]
    assert waits.told == []


def test_only_the_first_piece_of_a_look_is_waited_for(backend, monkeypatch):
    monkeypatch.setattr(follower_module, "PIECE_BYTES", 2)
    plain, patience = backend.tail, []

    def tail(job, positions, limit, *, wait_s=0.0):
        patience.append(wait_s)
        return plain(job, positions, limit)

    follower = Follower(backend, JOB)
    follower.poll()
    backend.write("012345")
    monkeypatch.setattr(backend, "tail", tail)
    assert [data for _, data, _ in log(follower.poll(wait_s=10))] == [b"01", b"23", b"45"]
    assert patience == [10, 0.0, 0.0]


def test_a_loop_that_is_stopped_asks_nothing(tmp_path):
    stop = threading.Event()
    stop.set()
    assert list(events(Place(tmp_path), JOB, stop=stop)) == []


# many jobs


def test_endings_come_once_in_the_look_that_finds_them(tmp_path):
    place = Place(tmp_path)
    for name, state in (("a", ExecutionState.SUCCEEDED), ("b", ExecutionState.RUNNING)):
        place.run(name, state)
    place.run("c")
    ids = {name: EXPERIMENT.child(Kind.JOB, name) for name in "abcd"}
    waits = Waits(99, {2: lambda: place.run("c", ExecutionState.FAILED), 3: lambda: place.jobs.pop("b")})
    told = list(endings(place, list(ids.values()), wait=waits))
    assert told == [[ids["a"], ids["d"]], [], [ids["c"]], [ids["b"]]]
    assert waits.told == pytest.approx([0.05, 0.065, 0.05])


def test_endings_know_names_in_any_letter_case(tmp_path):
    place = Place(tmp_path)
    place.run("Resnet")
    looks = endings(place, [EXPERIMENT.child(Kind.JOB, "RESNET")], wait=lambda seconds: None)
    assert next(looks) == []


# ranks and times


def test_each_part_of_a_chunk_goes_to_the_rank_that_wrote_it():
    lines = [f"{step}\timages/sec: 10.0 +/- 0.1 (jitter = 0.2)\t2.500\n".encode() for step in (1, 2, 3, 4)]
    size = len(lines[0])
    spans = (Span(100, 100 + size, 3), Span(100 + 2 * size, 100 + 3 * size, 0))
    chunk = Chunk(b"".join(lines), 100, 100 + 4 * size, True, spans)
    records = list(records_in(chunk, Parser({})))
    assert [(r.step, r.rank) for r in records] == [(1, 3), (2, None), (3, 0), (4, None)]
    assert [r.offset for r in records] == [100 + number * size for number in (1, 2, 3, 4)]


def test_many_lines_of_several_ranks_give_the_records_of_each_line_by_itself():
    pieces = [(rank, "".join(plain_step(10 * number) for number in range(1, 200))) for rank in (3, 0, 3, 0)]
    spans, times, end = [], [], 100
    for rank, text in pieces:
        spans.append(Span(end, end + len(text), rank))
        times.append(Written(end + 5, 1000.0 + end))
        end += len(text)
    data = "".join(text for _, text in pieces).encode()
    chunk = Chunk(data, 100, end, True, (*spans[:2], spans[3]), tuple(times))
    records = numbers_in(chunk, Parser())
    assert repr(list(records)) == repr(list(records_in(chunk, Parser())))
    assert not isinstance(records, tuple)
    assert isinstance(numbers_in(replace(chunk, data=data[:500], spans=()), Parser()), tuple)


def test_a_look_at_much_of_a_log_tells_the_steps_of_all_its_lines(backend, follower):
    lines = [plain_step(10 * number) for number in range(1, 1000)]
    text = "".join(lines)
    assert len(text) > 2 * MANY_BYTES
    backend.write(text[:-7])
    seen = steps(follower.poll())
    backend.write(text[-7:])
    assert seen + steps(follower.poll()) == [(10 * number, None) for number in range(1, 1000)]


def test_records_know_when_they_were_written():
    lines = [f"{step}\timages/sec: 10.0 +/- 0.1 (jitter = 0.2)\t2.500\n".encode() for step in (1, 2)]
    times = (Written(0, 1000.0), Written(len(lines[0]), 1001.5))
    chunk = Chunk(b"".join(lines), 0, 99, True, (), times)
    assert [record.wall_time for record in records_in(chunk, Parser({}))] == [1000.0, 1001.5]

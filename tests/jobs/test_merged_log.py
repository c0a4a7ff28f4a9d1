"""stdout and stderr as one log: what comes in which order, and whether it can be read again."""

import random
from dataclasses import dataclass, field

import pytest

from batchai_magics.backends.base import Chunk, Span, WriteTime
from batchai_magics.jobs.log_tail import MergedLogTail
from batchai_magics.jobs.merged_log import MAX_OPEN_BYTES, STDERR, MergedLog, unmarked

OUT, ERR = "stdout.txt", "stderr.txt"


@dataclass
class Logs:
    """Two logs with the times of their writing, as a node keeps them, and the one log made of them."""

    data: dict = field(default_factory=lambda: {OUT: b"", ERR: b""})
    times: dict = field(default_factory=lambda: {OUT: [], ERR: []})
    spans: dict = field(default_factory=lambda: {OUT: [], ERR: []})
    seen: dict = field(default_factory=lambda: {OUT: 0, ERR: 0})
    now: float = 100.0
    merged: MergedLog = field(default_factory=MergedLog)
    text: bytes = b""

    def write(self, file, data, rank=0):
        self.now += 1
        start = len(self.data[file])
        self.times[file].append(WriteTime(start, self.now))
        self.spans[file].append(Span(start, start + len(data), rank))
        self.data[file] += data

    def chunk(self, file, offset, limit):
        end = min(len(self.data[file]), offset + limit)
        times = [
            t
            for t, after in zip(self.times[file], [*self.times[file][1:], None], strict=False)
            if t.start < end and (after is None or after.start > offset)
        ]
        spans = [
            Span(max(s.start, offset), min(s.end, end), s.rank)
            for s in self.spans[file]
            if s.start < end and s.end > offset
        ]
        data = self.data[file][offset:end]
        return Chunk(data, offset, len(self.data[file]), False, tuple(spans), tuple(times))

    def poll(self, limit=1 << 20, files=(OUT, ERR)):
        for file in files:
            chunk = self.chunk(file, self.seen[file], limit)
            self.merged.add(file, chunk)
            self.seen[file] = chunk.end
        return self.take(self.merged.advance())

    def end(self):
        return self.take(self.merged.finish())

    def take(self, chunks):
        for chunk in chunks:
            assert chunk.offset == len(self.text)
            self.text += chunk.data
        return b"".join(chunk.data for chunk in chunks)

    def reread(self, offset=0, limit=1 << 20):
        return self.merged.read(self.chunk, offset, limit)


@pytest.fixture
def logs():
    return Logs()


def test_a_line_waits_one_poll_for_earlier_lines_of_the_other_log(logs):
    logs.write(OUT, b"1\n")
    logs.poll(files=[OUT])
    logs.write(OUT, b"2\n")  # written before the next line, and read after it
    logs.write(ERR, b"3\n")
    assert logs.poll(files=[ERR]) == b"1\n"
    assert logs.poll() == b"2\n3\n"


def test_nothing_overtakes_a_log_that_is_far_behind(logs):
    for _ in range(8):
        logs.write(OUT, b"out\n")
    logs.write(ERR, b"last\n")
    seen = [logs.poll(limit=8) for _ in range(6)]
    assert b"".join(seen) == b"out\n" * 8 + b"last\n"
    assert b"last" not in b"".join(seen[:3])


def test_lines_of_stdout_precede_stderr_at_the_same_time(logs):
    for file, text in ((ERR, b"2\n"), (OUT, b"1\n")):
        logs.write(file, text)
        logs.now -= 1
    logs.poll()
    logs.end()
    assert logs.text == b"1\n2\n"


def test_lines_near_each_other_are_read_again_at_once(logs):
    for number in range(100):
        logs.write((OUT, ERR)[number % 2], b"%d\n" % number)
    logs.poll()
    logs.end()
    reads = []
    again = logs.merged.read(lambda *asked: reads.append(asked) or logs.chunk(*asked), 0, 1 << 20)
    assert again.data == logs.text
    assert len(reads) == 2  # of both files


def test_a_bar_stands_below_until_its_line_ends_and_comes_as_it_was_at_last(logs):
    logs.write(ERR, b"\r10%")
    logs.write(OUT, b"loss 1\n")
    logs.write(ERR, b"\r20%")
    logs.poll()
    logs.poll()
    assert logs.text == b"loss 1\n"
    assert logs.merged.open_lines == [(ERR, b"20%")]
    logs.write(ERR, b"\r100%\nnext\r")
    logs.poll()
    logs.poll()
    assert logs.text == b"loss 1\n100%\n"
    assert logs.merged.open_lines == [(ERR, b"next")]
    logs.end()
    assert logs.text == b"loss 1\n100%\nnext\r\n"
    assert logs.reread().data == logs.text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"1\r2\r\nb\n", b"2\r\nb\n"),
        (b"x\ry\nz\n", b"y\nz\n"),
        (b"\r\n\n", b"\r\n\n"),
        (b"1\r\r\n", b"1\r\r\n"),
    ],
)
def test_overwritten_parts_of_a_line_are_left_out(logs, written, shown):
    logs.write(ERR, written)
    logs.poll()
    logs.poll()
    assert logs.text == shown
    assert logs.reread().data == shown


def test_logs_are_merged_once_stderr_is_not_empty(logs):
    logs.write(OUT, b"a\n")
    logs.poll()
    assert not logs.merged.is_wanted
    logs.write(ERR, b"b")
    logs.poll()
    assert logs.merged.is_wanted


@pytest.mark.parametrize("how", ["no times", "cut"])
def test_logs_without_a_known_order_are_not_merged(logs, how):
    chunk = Chunk(b"a\n", 0, 2, False, (), () if how == "no times" else (WriteTime(0, 1.0),))
    logs.merged.add(ERR, chunk, is_restarted=how == "cut")
    assert not logs.merged.is_wanted
    assert logs.merged.advance() == logs.merged.finish() == []


def test_stderr_is_marked_and_ranks_where_there_are_several(logs):
    logs.write(OUT, b"a\n", rank=0)
    logs.write(ERR, b"b\n", rank=0)
    logs.poll()
    logs.end()
    assert [(s.start, s.end, s.rank) for s in logs.reread().spans] == [(2, 4, STDERR)]
    ranked = Logs()
    ranked.write(OUT, b"a\n", rank=1)
    ranked.write(ERR, b"b\n", rank=2)
    ranked.poll()
    ranked.end()
    marked = ranked.reread()
    assert [(s.start, s.end, s.rank) for s in marked.spans] == [(0, 2, 1), (2, 4, STDERR + 3)]
    assert [span.rank for span in unmarked(marked).spans] == [1, 2]
    assert unmarked(logs.reread()).spans == ()


def test_the_tail_of_the_merged_log_has_ranks(logs):
    tail = MergedLogTail()
    logs.write(ERR, b"b\n")
    logs.poll()
    for chunk in logs.merged.advance():
        tail.add(chunk)
    assert tail.ranks(tail.fragment(0, 100, line=0)) != b""


def test_a_line_beyond_the_limit_is_merged_unfinished(logs):
    for _ in range(5):
        logs.write(ERR, b"1" * (MAX_OPEN_BYTES // 2))
    logs.poll()
    logs.end()
    assert logs.text == logs.data[ERR]
    assert logs.reread().data == logs.text


def test_any_writing_read_in_any_pieces_gives_the_lines_in_order_and_again():
    dice = random.Random(3)
    for _ in range(60):
        logs, expected, open_lines = Logs(), [], {OUT: b"", ERR: b""}
        for number in range(dice.randrange(1, 60)):
            file = dice.choice((OUT, ERR))
            data = (
                dice.choice((b"%d\n", b"%d ", b"\r%d%%", b"%d\na\n", b"%d\r\n", b"%d\r")).replace(b"%%", b"p")
                % number
            )
            logs.write(file, data)
            lines = (open_lines[file] + data).split(b"\n")
            open_lines[file] = lines.pop()
            expected += [line[line.rstrip(b"\r").rfind(b"\r") + 1 :] + b"\n" for line in lines]
            if dice.random() < 0.4:
                logs.poll(limit=dice.choice((3, 10, 1000)), files=dice.sample((OUT, ERR), 2))
        while any(logs.seen[file] < len(logs.data[file]) for file in logs.seen):
            logs.poll()
        logs.poll()
        assert logs.text == b"".join(expected)
        assert logs.reread().data == logs.text
        at = dice.randrange(len(logs.text) + 1)
        assert logs.reread(at, 7).data == logs.text[at : at + 7]

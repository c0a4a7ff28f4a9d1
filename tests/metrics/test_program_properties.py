"""What must not change a log's numbers: how it is cut, a launcher's prefixes, other ranks' lines between."""

import itertools
import random
from collections import Counter

import pytest

from tests.metrics.program_samples import NAMES, PROGRAMS, Row, expected_rows, read_rows, read_rows_in_chunks

PREFIXES = {
    "2026-03-02T10:25:35.038567110Z ": None,
    "[2026-03-02 10:25:36,087] {bash.py:173} INFO - ": None,
    "[pod/train-worker-0/pytorch] ": None,
    "worker-1  | ": None,
    "[1,3]<stdout>:": 3,
    "(RayTrainWorker pid=4121, ip=10.0.0.4) ": None,
    "\x1b[36m(RayTrainWorker pid=4121, ip=10.0.0.4)\x1b[0m ": None,
}
IN_TURN = ("[1,%d]<stdout>:", "[rank%d]:", "[default%d]:", "%d: ")
LABELS = ("[rank3]:", "[default3]:", "[Rank 3] ", "[gpu01:3/8] ", "(3/8) ")
_BOUND_TO_THEIR_START = {"djl", "llama_factory", "rsl_rl"}
RANKED = [
    name
    for name in NAMES
    if name not in _BOUND_TO_THEIR_START
    and "prefixes" not in name
    and all(rank is None for _, _, rank, *_ in expected_rows(name))
]
# Two blanks indent a member of their blocks. Open MPI 5 adds one behind its tags, so that one is removed.
_IN_BLOCKS = frozenset(["bert_fine_tuning", "nemo_rl", "torchforge"])
IN_LINES = [name for name in RANKED if name not in _IN_BLOCKS]


def share(names: list[str], turn: int) -> list[str]:
    """Every fourth of the logs, another quarter for each turn: each log meets some of the properties."""
    return names[turn % 4 :: 4]


def some_of(options, name: str):
    """Two of the options, by the log's name: each of them meets dozens of logs."""
    return random.Random(name).sample(list(options), 2)


def sample(name: str) -> bytes:
    return (PROGRAMS / f"{name}.log").read_bytes()


WITHOUT_RETURNS = [name for name in RANKED if b"\r" not in sample(name)]


def lines(log: bytes) -> list[bytes]:
    return [line + b"\n" for line in log.removesuffix(b"\n").split(b"\n")]


def tagged(log: bytes, prefix: str) -> list[bytes]:
    """The lines as a launcher shows them, which puts its prefix at the start of each."""
    return [prefix.encode() + line for line in lines(log)]


def of_rank(rows: Counter[Row], rank: int | None) -> Counter[Row]:
    """The rows as a process with that rank prints them."""
    return Counter({(epoch, step, rank, *rest): n for (epoch, step, _, *rest), n in rows.items()})


def interleaved(rng: random.Random, *logs: list[bytes]) -> bytes:
    """The lines of all logs, those of each in their order."""
    turns = [number for number, log in enumerate(logs) for _ in log]
    rng.shuffle(turns)
    rest = [iter(log) for log in logs]
    return b"".join(next(rest[number]) for number in turns)


@pytest.mark.parametrize("name", share(NAMES, 0))
def test_log_gives_the_same_numbers_however_it_is_cut(name):
    log, rng = sample(name), random.Random(name)
    for longest in some_of((1, 7, 64, 1000), name):
        cuts = [0]
        while cuts[-1] < len(log):
            cuts.append(cuts[-1] + rng.randint(1, longest))
        chunks = [log[start:end] for start, end in itertools.pairwise(cuts)]
        assert read_rows_in_chunks(chunks) == read_rows(log)


@pytest.mark.parametrize("name", share(RANKED, 1))
def test_a_launchers_prefix_gives_at_most_the_rank(name):
    expected = expected_rows(name)
    for prefix, rank in some_of(PREFIXES.items(), name):
        assert read_rows(b"".join(tagged(sample(name), prefix))) == of_rank(expected, rank), prefix


@pytest.mark.parametrize("name", share(WITHOUT_RETURNS, 2))
def test_label_determines_the_rank_of_its_line(name):
    expected = of_rank(expected_rows(name), 3)
    for label in some_of(LABELS, name):
        assert read_rows(b"".join(tagged(sample(name), label))) == expected, label


PLACED = [name for name in WITHOUT_RETURNS if all(row[:2] != (None, None) for row in expected_rows(name))]


@pytest.mark.parametrize("name", share(PLACED, 3))
def test_a_bare_number_before_each_line_is_the_rank(name):
    expected = of_rank(expected_rows(name), 3)
    for label in ("3: ", "[3] "):  # srun -l, mpiexec -l
        assert read_rows(b"".join(tagged(sample(name), label))) == expected, label


@pytest.mark.parametrize("name", share(IN_LINES, 0))
def test_lines_of_two_programs_may_alternate(name):
    rng = random.Random(name)
    other = rng.choice(IN_LINES)
    has_returns = b"\r" in sample(name) + sample(other)
    for prefix in IN_TURN[:1] if has_returns else some_of(IN_TURN, name):
        log = interleaved(rng, tagged(sample(name), prefix % 0), tagged(sample(other), prefix % 1))
        expected = of_rank(expected_rows(name), 0) + of_rank(expected_rows(other), 1)
        assert read_rows(log) == expected, (other, prefix)


@pytest.mark.parametrize("name", share(IN_LINES, 2))
def test_joined_lines_of_several_ranks_are_split(name):
    log = b""
    for line in lines(sample(name)):
        text = line.removesuffix(b"\n")
        log += b"".join(b"[1,%d]<stdout>:%b" % (rank, text) for rank in (0, 1)) + b"\n[1,0]<stdout>:\n"
    expected = expected_rows(name)
    assert read_rows(log) == of_rank(expected, 0) + of_rank(expected, 1)

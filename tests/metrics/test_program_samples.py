"""Every program's sample log gives exactly the numbers that stand in it; decoys and near misses give none."""

import pytest

from batchai_magics.metrics.measurement import FIT, Fact
from tests.metrics.program_samples import (
    DECOYS,
    NAMES,
    NEAR_MISSES,
    PRINTED,
    PROGRAMS,
    differences,
    read,
    read_rows,
)
from tests.metrics.reading.program_lines import KNOWN_LINES


@pytest.mark.parametrize("name", NAMES)
def test_a_programs_log_gives_its_numbers(name):
    missing, invented = differences(name)
    assert not missing, f"{len(missing)} not read, {len(invented)} invented: {invented[:3]}"
    assert not invented


def test_terminal_line_endings_make_no_difference():
    """A terminal (`ssh -t`, `script`) and Windows end lines with a carriage return and a newline."""
    logs = {name: (PROGRAMS / f"{name}.log").read_bytes() for name in NAMES}
    of_files = {name: log for name, log in logs.items() if b"\r" not in log}
    assert len(of_files) > len(logs) / 2
    ended = {name: read_rows(log.replace(b"\n", b"\r\n")) for name, log in of_files.items()}
    assert [name for name, log in of_files.items() if ended[name] != read_rows(log)] == []


def test_decoys_give_no_number():
    assert read_without_headings(DECOYS.read_bytes()) == []


def test_a_decoy_alone_gives_no_number():
    lines = DECOYS.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if read_without_headings(f"{line}\n".encode())] == []


def read_without_headings(data):
    """The records of a log; a setting such as `seed: 42` may head a fit, which is no number."""
    return [record for record in read(data) if not (isinstance(record, Fact) and record.key == FIT)]


def numbers(text):
    return [record for record in read(text.encode()) if not isinstance(record, Fact)]


def test_line_without_metrics_gives_no_numbers():
    assert [line for line in (*NEAR_MISSES, *PRINTED) if numbers(f"{line}\n")] == []


@pytest.mark.parametrize("prefix", ["[1,3]<stdout>:", "2019-03-02T10:25:35Z ", "INFO:root:"])
def test_line_without_metrics_gives_no_numbers_after_a_prefix(prefix):
    below_a_position = ("epoch   ", "Minibatch loss: ")  # there they are metrics
    lines = [line for line in (*NEAR_MISSES, *PRINTED) if not line.startswith(below_a_position)]
    assert [line for line in lines if numbers(f"{prefix}{line}\n")] == []


PARTS = ("1", " ", "a=1 ", " - a: 1", "a : 1 ", "[", "{", "- loss: ", "\ta (1)", "# ")


@pytest.mark.parametrize("part", PARTS)
def test_reading_time_of_any_line_is_bounded(part):
    for line in KNOWN_LINES[PARTS.index(part) % 3 : -3 : 3]:  # each goes on in three or four ways
        for sample in (line, line[: len(line) // 2]):
            assert len(numbers(f"{sample}{part * 100} - loss: step=1 epoch=1 !\n")) <= 20

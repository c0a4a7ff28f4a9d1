"""Every program's sample log gives exactly the numbers that stand in it, and the decoys give none."""

import pytest

from batchai_magics.metrics.measurement import FIT, Fact
from tests.metrics.program_samples import DECOYS, NAMES, differences, read


@pytest.mark.parametrize("name", NAMES)
def test_a_programs_log_gives_its_numbers(name):
    missing, invented = differences(name)
    assert not missing, f"{len(missing)} not read, {len(invented)} invented: {invented[:3]}"
    assert not invented


def test_decoys_give_no_number():
    assert read_without_headings(DECOYS.read_bytes()) == []


def test_a_decoy_alone_gives_no_number():
    lines = DECOYS.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if read_without_headings(f"{line}\n".encode())] == []


def read_without_headings(data):
    """The records of a log; a setting such as `seed: 42` may head a fit, which is no number."""
    return [record for record in read(data) if not (isinstance(record, Fact) and record.key == FIT)]

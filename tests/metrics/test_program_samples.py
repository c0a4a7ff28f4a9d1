"""Every program's sample log gives exactly the numbers that stand in it, and the decoys give none."""

import pytest

from tests.metrics.program_samples import DECOYS, NAMES, differences, read


@pytest.mark.parametrize("name", NAMES)
def test_a_programs_log_gives_its_numbers(name):
    missing, invented = differences(name)
    assert not missing, f"{len(missing)} not read, {len(invented)} invented: {invented[:3]}"
    assert not invented


def test_decoys_give_no_number():
    assert read(DECOYS.read_bytes()) == []


def test_a_decoy_alone_gives_no_number():
    lines = DECOYS.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if read(f"{line}\n".encode())] == []

"""Ports for a job's own programs."""

import socket

import pytest

from batchai_magics.backends.node import job_environment
from batchai_magics.backends.node.job_environment import free_ports


@pytest.mark.parametrize(
    ("told", "lowest", "highest"),
    [
        ("32768\t60999\n", 10_000, 32_767),
        ("10000\t40000\n", 40_001, 65_535),
        ("1024\t65535\n", 10_000, 65_535),  # there are no others
        ("10000\t65000\n", 10_000, 65_535),  # there are too few others
        ("what?", 10_000, 32_767),
        (None, 10_000, 32_767),
    ],
)
def test_ports_are_distinct_and_not_ephemeral(tmp_path, told, lowest, highest):
    file = tmp_path / "ip_local_port_range"
    if told:
        file.write_text(told, encoding="ascii")
    found = free_ports(300, "127.0.0.1", ephemeral_range=file)
    assert lowest <= min(found) <= max(found) <= highest
    assert max(found) - min(found) > (highest - lowest) / 2  # all over the range
    assert len(set(found)) == 300


def test_ports_in_use_are_not_chosen(monkeypatch):
    (port,) = free_ports(1, "127.0.0.1")  # which is free again
    with socket.create_server(("127.0.0.1", port)) as held:
        taken = held.getsockname()[1]
        monkeypatch.setattr(job_environment, "_choose_range", lambda ephemeral_range: range(taken, taken + 1))
        with pytest.raises(OSError, match=f"1 free ports were not found between {taken} and {taken}"):
            free_ports(1, "127.0.0.1")

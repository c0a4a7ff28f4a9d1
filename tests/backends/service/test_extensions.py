"""What our own server and client say to each other arrives as it was."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.base import (
    Capabilities,
    Chunk,
    CommandBytes,
    CommandEnd,
    Pace,
    RedactedSpan,
    Seal,
    Span,
    WriteTime,
)
from batchai_magics.backends.service import extension_bodies, extension_wire
from batchai_magics.errors import ServiceError

WHOLE = Chunk(
    b"\xff\0 it",
    offset=7,
    size=99,
    is_complete=True,
    spans=(Span(7, 9, 1),),
    times=(WriteTime(7, 1.5),),
    hidden=(RedactedSpan(8, 9),),
    generation="g",
    before=b"\xfe",
    seal=Seal(99, "ab", 1),
)


@pytest.mark.parametrize("chunk", [WHOLE, Chunk(b"", 0, 0, False), replace(WHOLE, seal=None, before=b"")])
def test_a_piece_of_a_file_arrives_whole(chunk: Chunk) -> None:
    assert (
        extension_bodies.chunk_from_wire(json.loads(json.dumps(extension_bodies.chunk_to_wire(chunk))))
        == chunk
    )


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"data": "x", "offset": 0, "size": 0},
        {"data": "", "offset": "a", "size": 0},
        {"data": "", "offset": 0, "size": 0, "spans": [[1]]},
    ],
)
def test_malformed_chunk_is_refused(data: dict) -> None:
    with pytest.raises(ServiceError):
        extension_bodies.chunk_from_wire(data)


@given(st.lists(st.tuples(st.binary(), st.booleans())), st.integers(0, 255), st.integers(1, 40))
def test_output_of_a_command_is_read_whatever_the_chunks(parts, code: int, size: int) -> None:
    output = [CommandBytes(data, is_error and bool(data)) for data, is_error in parts] + [CommandEnd(code)]
    sent = b"".join(extension_bodies.output_to_lines(output))
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
    assert list(extension_bodies.output_from_lines(pieces)) == output


class StubBackend:
    """A backend with two facets."""

    capabilities = Capabilities(name="local", key_vault=False, known_sizes=True, backend_options=("slurm",))
    storage = usages = object()

    def __getattr__(self, name: str) -> None:
        return None


def test_native_options_in_server_info_are_read_and_malformed_ones_ignored() -> None:
    told = json.loads(json.dumps(extension_wire.info_to_wire(StubBackend(), Pace(0.5, 10.0))))
    for said, options in ((["slurm", "rlimit"], ("slurm", "rlimit")), ("slurm", ()), (None, ())):
        capabilities = {**told["capabilities"], "backend_options": said}
        info = extension_wire.info_from_wire({**told, "capabilities": capabilities}, "arm")
        assert (info.capabilities.backend_options, info.capabilities.pace) == (options, Pace(0.5, 10.0))
    odd = {**told, "capabilities": {**told["capabilities"], "pace": 7}}
    assert extension_wire.info_from_wire(odd, "arm").capabilities.pace == Pace()

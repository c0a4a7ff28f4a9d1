"""The wire format of both ends: a mark, lengths and a checksum, a JSON head, and binary data. Python 3.6.

Output of the login shell or its background processes between frames is skipped.
"""

import json
import struct
import threading
import zlib
from typing import IO, Any

MARK_BYTES = 16
_SIZES = struct.Struct(">III")  # length of head, length of data, CRC-32 of both


class BrokenStreamError(Exception):
    """The connection has closed, or a frame is corrupt."""


class FrameStream:
    """Both directions of a connection. `mark` is random, so that other output cannot contain it."""

    def __init__(self, reader: "IO[bytes]", writer: "IO[bytes]", mark: bytes) -> None:
        self._reader, self._writer, self._mark = reader, writer, mark
        self._lock = threading.Lock()

    def send(self, head: "dict[str, Any]", data: bytes = b"") -> None:
        """Sends a frame (thread-safe); raises OSError or ValueError if the connection has closed."""
        text = json.dumps(head).encode()
        sizes = _SIZES.pack(len(text), len(data), zlib.crc32(data, zlib.crc32(text)))
        with self._lock:
            self._writer.write(b"".join((self._mark, sizes, text, data)))
            self._writer.flush()

    def receive(self) -> "tuple[dict[str, Any], bytes]":
        """The next frame; raises BrokenStreamError at the end of the stream."""
        window = self._read_exactly(MARK_BYTES)
        while window != self._mark:
            window = window[1:] + self._read_exactly(1)
        head_bytes, data_bytes, check = _SIZES.unpack(self._read_exactly(_SIZES.size))
        text, data = self._read_exactly(head_bytes), self._read_exactly(data_bytes)
        if zlib.crc32(data, zlib.crc32(text)) != check:
            raise BrokenStreamError("something else has written into a frame")
        head: dict[str, Any] = json.loads(text.decode())
        return head, data

    def _read_exactly(self, count: int) -> bytes:
        pieces = []
        while count:
            piece = self._reader.read(count)
            if not piece:
                raise BrokenStreamError("the connection has ended")
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

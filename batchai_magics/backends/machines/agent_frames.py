"""The frames in which both ends talk: a mark, lengths and a check sum, a JSON head, and bytes.

What a login shell, or something that it has started, writes between two frames is passed over. Also run by
Python 3.6.
"""

import json
import select
import struct
import threading
import zlib
from typing import IO, Any

MARK_BYTES = 16
_SIZES = struct.Struct(">III")  # of the head, of the bytes, and the check sum of both


class BrokenStreamError(Exception):
    """The other end has gone, or what came is not what was sent."""


class FrameStream:
    """Both directions of a connection; `mark` is known to its two ends alone."""

    def __init__(self, reading: "IO[bytes]", writing: "IO[bytes]", mark: bytes) -> None:
        self._reading, self._writing, self._mark = reading, writing, mark
        self._lock = threading.Lock()

    def send(self, head: "dict[str, Any]", data: bytes = b"") -> None:
        """Sends a frame; threads may do so at once. OSError or ValueError when nobody reads any more."""
        text = json.dumps(head).encode()
        sizes = _SIZES.pack(len(text), len(data), zlib.crc32(data, zlib.crc32(text)))
        with self._lock:
            self._writing.write(b"".join((self._mark, sizes, text, data)))
            self._writing.flush()

    def wait_readable(self, timeout_s: float) -> bool:
        """Whether a frame comes, or the end, before so long; for reading without a buffer alone."""
        return bool(select.select([self._reading], [], [], timeout_s)[0])

    def receive(self) -> "tuple[dict[str, Any], bytes]":
        """The next frame; BrokenError when there is none any more."""
        self._find_mark()
        head_bytes, data_bytes, check = _SIZES.unpack(self._exactly(_SIZES.size))
        text, data = self._exactly(head_bytes), self._exactly(data_bytes)
        if zlib.crc32(data, zlib.crc32(text)) != check:
            raise BrokenStreamError("something else has written into a frame")
        head: dict[str, Any] = json.loads(text.decode())
        return head, data

    def _find_mark(self) -> None:
        seen = self._exactly(MARK_BYTES)
        while seen != self._mark:
            seen = seen[1:] + self._exactly(1)

    def _exactly(self, count: int) -> bytes:
        pieces = []
        while count:
            piece = self._reading.read(count)
            if not piece:
                raise BrokenStreamError("the connection has ended")
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

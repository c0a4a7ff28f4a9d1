"""Streams the output of a command on a node."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator
from typing import IO

from batchai_magics.backends.base import CommandBytes

_READ_BYTES = 1 << 16


def output_of(out: IO[bytes] | None, err: IO[bytes] | None, tick_s: float) -> Iterator[CommandBytes]:
    """Yields output from a command's two pipes until both end; empty bytes after `tick_s` without output."""
    with selectors.DefaultSelector() as selector:
        for pipe, is_error in ((out, False), (err, True)):
            assert pipe, "both streams are pipes"
            selector.register(pipe, selectors.EVENT_READ, is_error)
        while selector.get_map():
            ready = selector.select(tick_s or None)
            if not ready:
                yield CommandBytes(b"")
            for key, _ in ready:
                data = os.read(key.fd, _READ_BYTES)
                if data:
                    yield CommandBytes(data, key.data)
                else:
                    selector.unregister(key.fileobj)

"""Commands on nodes: what they write, as it comes. They end with who reads it."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import IO

from batchai_magics.backends.base import CommandBytes, CommandEnd, CommandOutput
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.detached import clean_environment
from batchai_magics.backends.node.strays import MARK
from batchai_magics.backends.service import refusals

_PIECE_BYTES = 1 << 16


def run(layout: Layout, guid: str, node: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
    """Runs a shell command in a node's folder, with the environment that its jobs get.

    With `tick_s` no bytes at all are given whenever nothing came for so long.
    When the generator is closed, or interrupted, the command ends with all that it has started.
    """
    mark, is_over = f"exec-{uuid.uuid4()}", False
    with contextlib.ExitStack() as left:
        try:  # from before the start: an interrupt may come at any moment
            child = left.enter_context(_started(layout, guid, node, command, mark))
            yield from _output(child, tick_s or None)
            code = child.wait()
            is_over = True
        finally:
            if not is_over:
                _end(mark)
    yield CommandEnd(code if code >= 0 else 128 - code)


def _started(layout: Layout, guid: str, node: str, command: str, mark: str) -> subprocess.Popen[bytes]:
    folder = layout.node(guid, node)
    env = {
        **clean_environment(sys.executable),
        "AZ_BATCHAI_MOUNT_ROOT": str(layout.mounts(guid)),
        "TMPDIR": str(folder / "tmp"),
        MARK: mark,
    }
    try:
        return subprocess.Popen(
            ["/bin/bash", "-c", command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # an interrupt at the keyboard is for us; we end the command
        )
    except FileNotFoundError:
        raise refusals.node_not_found(node) from None


def _output(child: subprocess.Popen[bytes], tick_s: float | None) -> Iterator[CommandBytes]:
    """What both streams give, until both are at their end."""
    pipes: list[tuple[IO[bytes] | None, bool]] = [(child.stdout, False), (child.stderr, True)]
    with selectors.DefaultSelector() as selector:
        for pipe, is_error in pipes:
            assert pipe, "both streams are pipes"
            selector.register(pipe, selectors.EVENT_READ, is_error)
        while selector.get_map():
            ready = selector.select(tick_s)
            if not ready:
                yield CommandBytes(b"")
            for key, _ in ready:
                data = os.read(key.fd, _PIECE_BYTES)
                if data:
                    yield CommandBytes(data, key.data)
                else:
                    selector.unregister(key.fileobj)


def _end(mark: str) -> None:
    try:
        process.end(lambda: process.marked(mark))
    except KeyboardInterrupt:  # once more: no grace
        process.kill(lambda: process.marked(mark))
        raise

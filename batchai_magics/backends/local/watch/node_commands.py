"""Commands on nodes, with streamed output; a command ends when its reader does."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid

from batchai_magics.backends.base import CommandEnd, CommandOutput, api_errors
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.detached_process import clean_environment
from batchai_magics.backends.machines.machine import output_of
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.leftovers import MARK
from batchai_magics.backends.node.ranks.temporary_folder import TMPDIR, TemporaryFolder


def run(layout: Layout, guid: str, node: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
    """Runs a shell command in a node's folder, with the environment of a job.

    Yields empty output after each `tick_s` of silence. Closing or interrupting the generator ends the command
    and all processes it has started.
    """
    mark, is_over = f"exec-{uuid.uuid4()}", False
    with contextlib.ExitStack() as left:
        try:  # before the start: an interrupt may come at any moment
            temporary = TemporaryFolder()
            left.callback(temporary.remove)
            tmpdir = temporary.path(str(layout.tmpdir(guid, node)))
            child = left.enter_context(_started(layout, guid, node, command, mark, tmpdir=tmpdir))
            yield from output_of(child.stdout, child.stderr, tick_s)
            code = child.wait()
            is_over = True
        finally:
            if not is_over:
                try:
                    termination.end_all(lambda: process.marked(mark))
                except KeyboardInterrupt:  # a second Ctrl-C: no grace period
                    termination.kill(lambda: process.marked(mark))
                    raise
    yield CommandEnd(code if code >= 0 else 128 - code)


def _started(
    layout: Layout, guid: str, node: str, command: str, mark: str, *, tmpdir: str
) -> subprocess.Popen[bytes]:
    folder = layout.node(guid, node)
    env = {
        **clean_environment(sys.executable),
        "AZ_BATCHAI_MOUNT_ROOT": str(layout.mounts(guid)),
        TMPDIR: tmpdir,
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
            start_new_session=True,  # Ctrl-C is for this process, which then ends the command
        )
    except FileNotFoundError:
        raise api_errors.node_not_found(node) from None

"""Runs a shell command on a node for as long as somebody reads what it writes.

Started by srun as `CODE_FILE COMMAND`. Its standard input is the one that asked: when that ends, so does the
command, with all that it has started. The exit code goes to a file: srun would print what it thinks of it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.service import private_files


def main() -> None:
    """Runs the command, and leaves nothing of it behind."""
    code_file, command = Path(sys.argv[1]), sys.argv[2]
    termination.adopt_orphans()
    bell = SignalPipe()
    child = subprocess.Popen(["/bin/bash", "-c", command], stdin=subprocess.DEVNULL, start_new_session=True)
    if _is_left_alone(child, bell):
        code = child.wait()
        private_files.write(code_file, str(code if code >= 0 else 128 - code))
    else:
        _end()


def _is_left_alone(child: subprocess.Popen[bytes], bell: SignalPipe) -> bool:
    """Waits for the end of the command; False when nobody wants it any more."""
    asker = sys.stdin.fileno()
    while child.poll() is None:
        ready, _, _ = select.select([bell, asker], [], [])
        if asker in ready and not os.read(asker, 1 << 10):
            return False
        if bell in ready and signal.SIGTERM in bell.read():
            return False
    return True


def _end() -> None:
    termination.send(termination.below(), signal.SIGTERM)
    deadline = time.monotonic() + termination.GRACE_S
    while termination.below() and time.monotonic() < deadline:
        time.sleep(termination.PAUSE_S)
    termination.kill()


if __name__ == "__main__":
    main()

"""Runs a shell command on a node for as long as its client reads the output.

Started as `CODE_FILE COMMAND`. Standard input belongs to the client: when it is closed, the command ends with
everything that it started. The exit code goes to a file if one is named: srun prints its own message about
it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.temporary_folder import ROOT, TMPDIR, TemporaryFolder
from batchai_magics.untrusted_files import opener

_ENDING = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Runs the command, and ends everything that it started."""
    code_file, command = sys.argv[1:]
    termination.adopt_orphans()
    signal_pipe, temporary = SignalPipe((signal.SIGCHLD, *_ENDING)), TemporaryFolder()
    env = {**os.environ, TMPDIR: temporary.path(os.environ.get(TMPDIR) or ROOT)}
    child = subprocess.Popen(
        ["/bin/bash", "-c", command], env=env, stdin=subprocess.DEVNULL, start_new_session=True
    )
    if _has_completed(child, signal_pipe):
        code = child.wait()
        code = code if code >= 0 else 128 - code
        if code_file:
            with open(f"{code_file}.part", "w", encoding="utf-8", opener=opener) as part:
                part.write(str(code))
            Path(f"{code_file}.part").replace(code_file)
    else:
        if sys.platform == "linux":
            termination.end_all()
        else:
            os.killpg(child.pid, signal.SIGKILL)
        code = 128 + signal.SIGTERM
    temporary.remove()
    sys.exit(0 if code_file else code)


def _has_completed(child: subprocess.Popen[bytes], signal_pipe: SignalPipe) -> bool:
    """Waits for the end of the command; False if the client is gone or it was terminated."""
    client = sys.stdin.fileno()
    while child.poll() is None:
        ready, _, _ = select.select([signal_pipe, client], [], [])
        if client in ready and not os.read(client, 1 << 10):
            return False
        if signal_pipe in ready and signal_pipe.read().intersection(_ENDING):
            return False
    return True


if __name__ == "__main__":
    main()

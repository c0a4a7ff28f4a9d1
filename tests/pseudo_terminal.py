"""The `batchai` command on a pseudo-terminal."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

COMMAND = [sys.executable, "-m", "batchai_magics.cli"]
COLUMNS = 80


def rest_of(terminal):
    """What was written to a terminal that nobody writes to any more, in however many pieces it comes."""
    rest = b""
    with contextlib.suppress(OSError):  # its other end is closed
        while piece := os.read(terminal, 1 << 16):
            rest += piece
    os.close(terminal)
    return rest


def start_on_terminal(*words, columns=COLUMNS, cwd=None, **variables):
    """A command on a terminal of so many columns: the process and our end of the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", **variables}
    env.pop("COLUMNS", None)
    process = subprocess.Popen([*COMMAND, *words], stdout=theirs, stderr=theirs, env=env, cwd=cwd)
    os.close(theirs)
    return process, ours


def read_until(terminal, *texts):
    """What was written up to all the texts, at least."""
    written = b""
    while not all(text.encode() in written for text in texts):
        written += os.read(terminal, 1 << 16)
    return written.decode()


def plain(text):
    """Text without the sequences of a terminal."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)

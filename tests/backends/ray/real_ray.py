"""A real Ray for tests: a head and some nodes, on this machine, on loopback alone, as this user."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import psutil

from tests.ports import free_port
from tests.server.clients import VENVS
from tests.shared_service import SharedService

PYTHON = VENVS / "ray/bin/python"
ENV = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # else Ray looks for a driver's node at another address
NODES = 3


def skip_reason() -> str:
    """Why there can be no Ray here; empty where there can."""
    return "" if PYTHON.exists() else "no Ray here: make clients installs it"


class RealRay:
    """A Ray in a folder of its own, whose processes end with this one.

    Attributes:
        hidden: A folder that only the first node sees: the others have an empty one there. None where this
            user has no mount namespaces.
    """

    def __init__(self, count: int = NODES) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # it has sockets there: a short path
        self.address, port = "", free_port()
        self._lost_nodes: set[str] = set()
        has_namespaces = shutil.which("unshare") and not subprocess.run(["unshare", "-m", "true"]).returncode
        self.hidden = self.folder / "hidden" if has_namespaces else None
        words = [PYTHON, Path(__file__).with_name("programs") / "ray_cluster.py", self.folder, port, count]
        if self.hidden:
            self.hidden.mkdir()
            words.append(self.hidden)
        with (self.folder / "cluster.log").open("w") as log:
            self._program = subprocess.Popen(
                [*map(str, words)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        if self._said() != "up":
            told = (self.folder / "cluster.log").read_text()
            self.stop()
            raise AssertionError(told)
        self.address = f"127.0.0.1:{port}"

    @property
    def is_whole(self) -> bool:
        """Whether it runs, and has all its nodes."""
        return not self._lost_nodes and self._program.poll() is None

    def kill(self, name: str) -> None:
        """Ends a node, not the head, without a word."""
        self._lost_nodes.add(name)
        self._order(f"kill {name}")

    def add(self, name: str) -> None:
        """Adds a node, in place of a lost one."""
        self._order(f"add {name}")
        self._lost_nodes.discard(name)

    def stop(self) -> None:
        """Kills all of it: to end by itself, Ray takes a second for each process."""
        with contextlib.suppress(psutil.NoSuchProcess):
            program = psutil.Process(self._program.pid)
            for process in [program, *program.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self._program.wait()
        assert self._program.stdin
        with contextlib.suppress(BrokenPipeError):  # it had ended, and an order did not reach it
            self._program.stdin.close()
        assert self._program.stdout
        self._program.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _order(self, order: str) -> None:
        assert self._program.stdin
        self._program.stdin.write(f"{order}\n")
        self._program.stdin.flush()
        assert self._said() == order

    def _said(self) -> str:
        assert self._program.stdout
        return self._program.stdout.readline().strip()


SHARED = SharedService(RealRay, is_whole=lambda ray: ray.is_whole)

"""A real sshd for tests: on loopback, as this user, with keys and a home folder of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from batchai_magics.backends.machines.ssh_channel import SshChannel
from batchai_magics.backends.node.ranks.rank import die_with_parent
from tests.ports import free_port
from tests.shared_service import SharedService
from tests.world import until

SSHD = "/usr/sbin/sshd"
HOST = "cluster"
_SERVER = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
LogLevel VERBOSE
SetEnv HOME={folder}/home
"""
_CLIENT = """
Host *
HostName 127.0.0.1
Port {port}
User {user}
IdentityFile {folder}/{key}
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
"""


def skip_reason() -> str:
    """Why there can be no sshd here; empty where there can."""
    return (
        "" if Path(SSHD).exists() and shutil.which("ssh") else "no sshd here: install Debian's openssh-server"
    )


@dataclass
class RealSshd:
    """An sshd. The home folder of who logs in is `home`, whatever the system says."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="sshd-")))
    port: int = 0
    sshd: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        """The folder of who logs in."""
        return self.folder / "home"

    @property
    def log(self) -> str:
        """What sshd has said."""
        return (self.folder / "sshd.log").read_text()

    @property
    def logins(self) -> int:
        """How often somebody was let in."""
        return self.log.count("Accepted publickey")

    @property
    def ssh(self) -> str:
        """The line that starts `ssh` so that every host is this one."""
        return f"ssh -F {self.folder}/client"

    def make(self) -> None:
        """Makes its keys and starts it."""
        self.home.mkdir()
        for name in ("host_key", "user_key", "stranger"):
            line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(line, check=True)
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        self.port = free_port()
        self.know(self.folder / "host_key.pub")
        self.use_key("user_key")
        self.configure()
        self.start()

    def know(self, key: Path | None) -> None:
        """Makes a host key the one that is known of it; none for None."""
        line = f"[127.0.0.1]:{self.port} {key.read_text()}" if key else ""
        (self.folder / "known_hosts").write_text(line)

    def use_key(self, name: str) -> None:
        """Makes a key the one that users have."""
        user = pwd.getpwuid(os.getuid()).pw_name
        text = _CLIENT.format(port=self.port, user=user, folder=self.folder, key=name)
        (self.folder / "client").write_text(text)

    def configure(self, more: str = "") -> None:
        """Writes its configuration."""
        (self.folder / "server").write_text(_SERVER.format(port=self.port, folder=self.folder) + more)

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with (self.folder / "sshd.log").open("ab") as log:
            self.sshd = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self.folder / "server")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, signal.SIGTERM),  # when the tests are killed
            )
        until(self._answers)

    def kill(self) -> None:
        """Ends it with all connections, without a word; what was started over them lives on."""
        assert self.sshd
        sessions = psutil.Process(self.sshd.pid).children(recursive=True)
        self.sshd.kill()
        self.sshd.wait()
        for process in sessions:
            with contextlib.suppress(psutil.NoSuchProcess):  # it may have ended with its parent
                if process.name().startswith("sshd"):
                    process.kill()
        self.sshd = None

    def stop(self) -> None:
        """Ends it, and deletes what it had."""
        if self.sshd:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def channel(self, host: str = HOST, *, python: str = "python3") -> SshChannel:
        """A channel to it."""
        return SshChannel(host, ssh=self.ssh, python=python)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def _start() -> RealSshd:
    made = RealSshd()
    made.make()
    return made


SHARED = SharedService(_start)

"""A real Slurm for tests: a controller and some nodes, on this machine, on loopback alone, as this user."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from batchai_magics.backends.node.ranks.rank import die_with_parent
from tests.ports import free_ports
from tests.shared_service import SharedService
from tests.world import until

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo", "squeue", "scancel")
PARTITION = "batch"
END_S = 10.0
ANSWER_S = 100.0  # in which a controller answers under any load
CONFIGURATION = """
ClusterName=tests
FirstJobId={first}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/{gathered}
AccountingStorageType=accounting_storage/{accounting}
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=0,bf_interval=1,batch_sched_delay=0
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait={kill_wait_s}
CompleteWait=0
MessageTimeout=100
TCPTimeout=60
BatchStartTimeout=300
SlurmctldTimeout=30
SlurmdTimeout={silence_s}
CommunicationParameters=NoAddrCache,NoInAddrAny,NoCtldInAddrAny
SlurmdParameters=config_overrides
{more}
PartitionName={partition} Nodes=node[1-{count}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def skip_reason() -> str:
    """Why there can be no Slurm here; empty where there can."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    return (
        f"no {', '.join(missing)} here: install Debian's slurmctld, slurmd, slurm-client" if missing else ""
    )


class DeadPort(socketserver.TCPServer):
    """The port of a killed node, which ends each connection: a closed port Slurm tries again for 10 s."""

    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), socketserver.BaseRequestHandler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


@dataclass
class RealSlurm:
    """A Slurm in a folder of its own. Its daemons are children of this process."""

    folder: Path
    count: int = 8
    silence_s: int = 10  # after which a node that does not answer is down
    kill_wait_s: int = 30  # between the two signals that end a job: time to record its end, under any load
    more: str = ""  # lines of its configuration
    of_nodes: str = ""  # words on the lines of its nodes
    gathered: str = "none"  # what is known of jobs' memory: `linux`
    accounting: str = "none"  # where what became of jobs is kept: `slurmdbd`
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: dict[str, DeadPort] = field(default_factory=dict)
    # The nodes have sockets there, whose paths must be short.
    spool: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="spool-")))

    @property
    def conf(self) -> Path:
        """What `SLURM_CONF` is for it."""
        return self.folder / "slurm.conf"

    @property
    def env(self) -> dict[str, str]:
        """The environment in which Slurm's commands mean this one."""
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def prepare(self) -> None:
        """Makes its folders, and writes its configuration."""
        for folder in (self.folder / "state", *(self.spool / f"node{number}" for number in self._numbers)):
            folder.mkdir()
        self._configure()

    def start(self) -> None:
        """Starts all of it, and waits until every node is idle."""
        self.prepare()
        self.start_controller()
        self.start_nodes()

    def start_nodes(self) -> None:
        """Starts the nodes that do not run, and waits until every node is idle."""
        for name in (f"node{number}" for number in self._numbers):
            if name not in self.daemons:
                self.start_node(name)
        until(lambda: len({*self.ask("sinfo", "-hN", "-t", "idle", "-o", "%N").split()}) == self.count)

    def start_controller(self, *options: str) -> None:
        """Starts the controller, with what it knew when it ended; with `-c` it has forgotten all."""
        self._start("slurmctld", ["slurmctld", "-D", "-f", str(self.conf), *options])

    def start_node(self, name: str) -> None:
        """Starts a node."""
        if dead := self.killed.pop(name, None):
            dead.close()
        self._start(name, ["slurmd", "-D", "-f", str(self.conf), "-N", name])

    def kill(self, name: str) -> None:
        """Ends a daemon, `slurmctld` or a node's, without a word."""
        self.daemons[name].kill()
        self.daemons.pop(name).wait()
        if found := re.search(rf"NodeName={name} .*Port=(\d+)", self.conf.read_text()):
            self.killed[name] = DeadPort(int(found[1]))

    def end(self, name: str) -> None:
        """Ends a daemon as an administrator would."""
        self.daemons[name].terminate()
        self.daemons.pop(name).wait()

    def ask(self, *words: str) -> str:
        """What one of Slurm's commands says; whatever it says when it fails."""
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def is_idle(self) -> bool:
        """Whether no job is left."""
        return not self.ask("squeue", "-h").strip()

    @property
    def controller_status(self) -> int | None:
        """The exit status of the controller; None while it runs."""
        return self.daemons["slurmctld"].poll()

    def answers(self) -> bool:
        """Whether the controller tells of its jobs and of its nodes, for which it takes other locks."""
        if self.controller_status is not None:
            return False  # its commands would ask for MessageTimeout
        words = (["squeue", "-h", "-o", "%i"], ["sinfo", "-h", "-o", "%N"])
        try:
            return all(
                subprocess.run(asked, env=self.env, capture_output=True, timeout=ANSWER_S).returncode == 0
                for asked in words
            )
        except subprocess.TimeoutExpired:
            return False

    def kill_all(self) -> None:
        """Ends all daemons, whatever runs on them, without a word."""
        for name in list(self.daemons):
            daemon = self.daemons.pop(name)
            daemon.kill()
            daemon.wait()
        self._remove_rest()

    def stop(self) -> None:
        """Ends every job, then all daemons."""
        self.ask("scancel", "--user", str(os.getuid()))
        until(self.is_idle)
        for daemon in self.daemons.values():
            daemon.terminate()
        for daemon in self.daemons.values():
            wait_for(daemon)
        self._remove_rest()

    def _remove_rest(self) -> None:
        """Removes what daemons have left: the `slurmstepd` of a step outlives a killed `slurmd`.

        Its title lies where psutil looks for its environment.
        """
        conf = os.fsencode(self.conf)
        for process in psutil.process_iter(["name"]):
            with contextlib.suppress(psutil.Error, OSError):
                is_step = process.name() == "slurmstepd"
                if is_step and conf in Path(f"/proc/{process.pid}/environ").read_bytes():
                    process.kill()
        for dead in self.killed.values():
            dead.close()
        shutil.rmtree(self.spool, ignore_errors=True)

    @property
    def _numbers(self) -> Sequence[int]:
        return range(1, self.count + 1)

    def _configure(self) -> None:
        ports = free_ports(self.count + 1)
        name = own_name()
        nodes = "".join(
            f"\nNodeName=node{number} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1"
            f" Port={port} CPUs=2 RealMemory=1000 State=UNKNOWN {self.of_nodes}"
            for number, port in zip(self._numbers, ports[1:], strict=True)
        )
        self.conf.write_text(
            CONFIGURATION.format(
                first=random.randrange(1, 1 << 25),  # MPICH names its shared memory after the job's id
                port=ports[0],
                user=name,
                folder=self.folder,
                spool=self.spool,
                silence_s=self.silence_s,
                kill_wait_s=self.kill_wait_s,
                gathered=self.gathered,
                accounting=self.accounting,
                partition=PARTITION,
                count=self.count,
                more=nodes + self.more,
            )
        )
        (self.folder / "cgroup.conf").write_text("ConstrainCores=no\nIgnoreSystemd=yes\n")

    def _start(self, name: str, words: Sequence[str]) -> None:
        with (self.folder / f"{name}.out").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                words,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, signal.SIGTERM),  # when the tests are killed
            )


SomeSlurm = TypeVar("SomeSlurm", bound=RealSlurm)


@contextlib.contextmanager
def running(kind: type[SomeSlurm], folder: Path, **settings: Any) -> Iterator[SomeSlurm]:
    """A Slurm of a test's own, from its start to its end; the test is skipped where there can be none."""
    if reason := skip_reason():
        pytest.skip(reason)
    folder.mkdir(exist_ok=True)
    slurm = kind(folder, **settings)
    slurm.start()
    try:
        yield slurm
    finally:
        slurm.stop()


class SharedSlurm(RealSlurm):
    """A Slurm whose folder goes with it."""

    def stop(self) -> None:
        """Ends every job, then all daemons."""
        super().stop()
        shutil.rmtree(self.folder)


def shared(**settings: Any) -> SharedService[RealSlurm]:
    """A Slurm for many tests; they are skipped where there can be none.

    One that does not answer fails the test that asks for it, and is replaced.
    """

    def start() -> RealSlurm:
        if reason := skip_reason():
            pytest.skip(reason)
        slurm = SharedSlurm(Path(tempfile.mkdtemp(prefix="slurm-")), **settings)
        slurm.start()
        return slurm

    return SharedService(start, is_whole=_check_answers)


def _check_answers(slurm: RealSlurm) -> bool:
    if slurm.answers():
        return True
    status = slurm.controller_status
    end = "does not answer" if status is None else f"has ended with status {status}"
    log = (slurm.folder / "slurmctld.log").read_text(errors="replace")
    slurm.kill_all()
    raise AssertionError(f"slurmctld {end}; the next test gets another. Its log ends:\n{log[-4000:]}")


SHARED = shared()
# Slurm begins a job again no sooner than its credentials are surely void: two minutes, unless told otherwise.
SOON = "\nAuthInfo=cred_expire=5"
SOON_AGAIN = shared(count=2, silence_s=2, more=SOON)
# How MPI's ranks reach each other on nodes that are all this machine.
MPI_ENV = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


def own_name() -> str:
    """The user of this process."""
    return pwd.getpwuid(os.getuid()).pw_name


def wait_for(daemon: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a daemon that was told to end; a `slurmd` told so while it starts may never do."""
    try:
        daemon.wait(END_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()

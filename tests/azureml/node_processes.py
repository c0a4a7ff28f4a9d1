"""The processes of an attempt: they start on all nodes, and are really killed."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.azureml.jobs import Job
from tests.azureml.mounts import JobFolders
from tests.azureml.node_environment import Role, is_mpi, node_env, roles_of, write_fence
from tests.ports import free_port

GRACE_S = 10.0
# How ranks reach each other on nodes that are all this machine.
MPI_ENV = {"HYDRA_LAUNCHER": "fork", "FI_PROVIDER": "shm", "MPIR_CVAR_CH4_NETMOD": "ofi"}


class NodeProcesses:
    """What runs of a job; `logs` gets one file for each process."""

    def __init__(self, job: Job, folders: JobFolders, logs: Path) -> None:
        self._job, self._folders, self._logs = job, folders, logs
        self._port = free_port()
        self.roles = roles_of(job, self._port)
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Starts all of them."""
        write_fence(self._folders.root)
        command = self._job.properties["command"]
        for text, path in self._folders.paths.items():
            command = command.replace(text, path)
        start = self._start_mpi if is_mpi(self._job) else self._start_each
        start(command)

    @property
    def exit_code(self) -> int | None:
        """That of the first that fails, or 0 once all have ended; None while they run."""
        ends = [*(process.poll() for process in self._processes), *self._failed_ranks()]
        if failed := next((end for end in ends if end), None):
            return failed if failed > 0 else 128 - failed
        return 0 if all(end == 0 for end in (ends[:1] if is_mpi(self._job) else ends)) else None

    def _failed_ranks(self) -> list[int]:
        """The exit codes of MPI's ranks that have failed: Open MPI ends the others then."""
        files = [self._end_file(role) for role in self.roles]
        codes = [int(file.read_text() or 0) for file in files if file.exists()]
        return [code for code in codes if code]

    def _end_file(self, role: Role) -> Path:
        return self._folders.root / f"{role.log}.exit"

    def kill(self) -> None:
        """Ends them and all that they have started."""
        alive = [found for process in self._processes for found in _family(process.pid)]
        _signal([process for process in alive if not _is_launcher(process)], signal.SIGTERM)
        _, alive = psutil.wait_procs(alive, timeout=GRACE_S)
        late = [found for process in self._processes for found in _family(process.pid)]
        _signal([*alive, *late], signal.SIGKILL)
        psutil.wait_procs([*alive, *late], timeout=GRACE_S)
        for process in self._processes:
            process.wait()

    def _start_each(self, command: str) -> None:
        for role in self.roles:
            argv, env = ["bash", "-c", command], {**self._node_env(role.node), **role.env}
            self._processes.append(self._popen(argv, role, env))

    def _start_mpi(self, command: str) -> None:
        """One launcher: each process gets its variables and its log through a shell of its own."""
        launcher = Path(sys.executable).with_name("mpiexec")
        argv: list[str] = [str(launcher)]
        for role in self.roles:
            file = self._env_file(role, {**self._node_env(role.node), **role.env})
            log = shlex.quote(str(self._logs / role.log))
            end = shlex.quote(str(self._end_file(role)))
            run = f'bash -c "$1" >{log} 2>&1; code=$?; echo $code >{end}; exit $code'
            # killed by a signal, it would have the launcher kill the other ranks
            shell = f"trap : TERM; set -a; . {file}; set +a; {run}"
            part = ["-n", "1", "-wdir", str(self._folders.work(role.node))]
            argv += [*([":"] if len(argv) > 1 else []), *part, "bash", "-c", shell, "-", command]
        first = Role(0, "launcher", {})
        self._processes.append(self._popen(argv, first, {**self._node_env(0), **MPI_ENV}))

    def _env_file(self, role: Role, env: Mapping[str, str]) -> str:
        """What differs between ranks; they inherit the job's own variables, which may be secret."""
        own = self._job.properties.get("environmentVariables") or {}
        told = {name: value for name, value in env.items() if name not in own}
        file = self._folders.root / f"{role.log}.env"
        file.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in told.items()))
        return shlex.quote(str(file))

    def _popen(self, argv: Sequence[str], role: Role, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        folder = self._folders.work(role.node)
        is_launcher = role.log == "launcher"
        with (self._folders.root / role.log if is_launcher else self._logs / role.log).open("ab") as log:
            return subprocess.Popen(
                argv,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _node_env(self, node: int) -> dict[str, str]:
        folder = self._folders.work(node).parents[1]
        for name in ("tmp", "home", "stdouterr"):
            (folder / name).mkdir(exist_ok=True)
        own = self._job.properties.get("environmentVariables") or {}
        return {**node_env(self._job, node, folder, self._port), **self._folders.env, **own}


def _family(pid: int) -> list[psutil.Process]:
    """The living processes of a session that this started, and their descendants."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = process
    with contextlib.suppress(psutil.Error):
        found |= {child.pid: child for child in psutil.Process(pid).children(recursive=True)}
    return list(found.values())


def _is_launcher(process: psutil.Process) -> bool:
    """Whether it is a part of MPI's launcher, which would kill its ranks at once."""
    with contextlib.suppress(psutil.Error):
        return process.name() in ("mpiexec", "mpiexec.hydra", "hydra_pmi_proxy")
    return False


def _signal(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)

"""Jobs in containers: what runs them on this machine, and the command line that puts a process into one."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.node import image_registry
from batchai_magics.backends.node.inherited_environment import TUNING_PREFIXES
from batchai_magics.launch.plan import Image, Launcher, Plan, Process, Rendezvous

ENGINES = ("docker", "podman", "apptainer")
OWN_PROCESSES = ("apptainer", "singularity", "enroot")  # what runs in them are children of who starts them
PROBE_S = 10.0
# What the launcher and this backend tell each process; passed on by name: no value is on a command line.
PASSED_ON = (
    *("BATCHAI_JOB_GUID", "TMPDIR", "PYTHONUNBUFFERED"),
    *("PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)
# All that tunes devices, threads, networks and MPI, and what Slurm tells a task. Folders and versions are the
# image's own. Bash finds the names when the container starts: an engine that runs elsewhere sets some, too.
_PREFIXES = (*TUNING_PREFIXES, "SLURM_")
_NOT_PASSED_ON = ("HOME", "ROOT", "PATH", "DIR", "VERSION")  # the last word of the name
_COLLECT_NAMES = (
    f"for name in {' '.join(f'${{!{prefix}@}}' for prefix in _PREFIXES)}; do case $name in"
    f' {"|".join(f"*_{word}" for word in _NOT_PASSED_ON)}) ;; *) set -- "$@" --env=$name ;; esac; done'
)

# Ranks in containers of their own cannot read each other's memory: they copy through what they share.
RANK_ENV = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "MPIR_CVAR_CH4_XPMEM_ENABLE": "0"}


def engine(configured: str = "") -> tuple[str, ...]:
    """The command that runs containers: the configured one, else the first that works; empty if none does."""
    if configured:
        return tuple(shlex.split(configured))
    return next(((name,) for name in ENGINES if _works(name)), ())


def _works(name: str) -> bool:
    if not shutil.which(name):
        return False
    if name in OWN_PROCESSES:
        return True
    try:  # the client alone is not enough: docker needs its engine
        return not subprocess.run(
            [name, "info"], capture_output=True, timeout=PROBE_S, check=False
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def with_container_note(plan: Plan) -> Plan:
    """The plan with a note where its containers are not as the description asks for."""
    image, engine, _ = plan.containers
    note = ""
    if image and not engine:
        cause = "no docker, podman or apptainer works here"
        note = f"{cause}: image {image.name} is not used, the job runs on the host"
    elif image and image.shm_size and plan.launcher is Launcher.MPI:
        note = "shmSize is not used: the ranks of an MPI job share the memory of the machine"
    return plan._replace(notes=(*plan.notes, note)) if note else plan


def in_containers(plan: Plan, folders: Sequence[Path]) -> Plan:
    """The plan with every process put into a container, if the job asks for one and an engine was found."""
    image, engine, _ = plan.containers
    if not (image and engine):
        return plan
    boxes = [_container_command(plan, image, process, folders) for process in plan.processes]
    processes = tuple(
        process._replace(env=_env(plan, process), command=box.command(process.command))
        for process, box in zip(plan.processes, boxes, strict=True)
    )
    removals = tuple(removal for box in boxes for removal in box.removals)
    meeting = Rendezvous.DESCRIPTOR if passes_descriptors(engine) else Rendezvous.PORT
    used = plan.containers._replace(removals=removals)
    return plan._replace(processes=processes, containers=used, meeting=meeting)


def _container_command(
    plan: Plan, image: Image, process: Process, folders: Sequence[Path]
) -> ContainerCommand:
    return ContainerCommand(
        plan.containers.engine,
        image,
        f"batchai-{plan.guid}-{process.rank}",
        folders,
        [*plan.node_of(process).env, *_env(plan, process), *plan.secrets],
        is_rank=plan.launcher is Launcher.MPI,
    )


def _env(plan: Plan, process: Process) -> Mapping[str, str]:
    return {**process.env, **RANK_ENV} if plan.launcher is Launcher.MPI else process.env


def remove(removals: Iterable[Sequence[str]], env: Mapping[str, str]) -> None:
    """Ends containers, whatever they do."""
    for command in removals:
        subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def has_own_processes(engine: Sequence[str]) -> bool:
    """Whether containers are processes of who starts them, with no daemon or monitor behind them."""
    return any(name in Path(engine[0]).name for name in OWN_PROCESSES)


def is_enroot(engine: Sequence[str]) -> bool:
    """Whether enroot runs the containers, which is there where Slurm has the plugin pyxis."""
    return "enroot" in Path(engine[0]).name


def is_podman(engine: Sequence[str]) -> bool:
    """Whether podman runs the containers, which hands on descriptors from the third on."""
    return Path(engine[0]).name == "podman" and "--remote" not in engine


def passes_descriptors(engine: Sequence[str]) -> bool:
    """Whether what runs in a container can have descriptors of who starts it; docker's daemon has none."""
    return is_podman(engine) or has_own_processes(engine)


@dataclass(frozen=True)
class ContainerCommand:
    """One container: what runs it, its name, the folders it sees, and the variables it gets, by name.

    The ranks of an MPI job reach each other through the machine's shared memory, which is then not theirs
    to choose the size of.
    """

    engine: tuple[str, ...]
    image: Image
    name: str
    folders: Sequence[Path]
    variables: Iterable[str]
    is_rank: bool = False

    def command(self, command: str) -> str:
        """The command of bash that runs `command` in the container, in the folder it is started in."""
        image = image_registry.image_name(self.image.server, self.image.name)
        if is_enroot(self.engine):
            return self._of_enroot(image, command)
        if has_own_processes(self.engine):
            binds = [word for folder in self.folders for word in ("--bind", str(folder))]
            words = [*self.engine, "exec", *binds, f"docker://{image}"]
            return f"exec {shlex.join(words)} /bin/bash -c {shlex.quote(command)}"
        mounts = [f"--volume={folder}:{folder}" for folder in self.folders]
        passed = [f"--env={name}" for name in self._passed_on]
        where = ["--rm", "--network=host", f"--name={self.name}", *self._memory, *mounts, *passed]
        run = shlex.join([*self.engine, "run", *where, *self._descriptors])
        inside = f"{shlex.quote(image)} /bin/bash -c {shlex.quote(command)}"
        line = f'{_COLLECT_NAMES}; exec {run} "$@" --workdir="$PWD" {inside}'
        return f'{line} 3<&"$PMI_FD"' if self._descriptors else line

    def _of_enroot(self, image: str, command: str) -> str:
        """The same for enroot: whoever is first imports the image, once for all processes of the job."""
        program, uri = shlex.join(self.engine), shlex.quote(_enroot_uri(image))
        file = '"$AZ_BATCHAI_SHARED_JOB_TEMP/.image.sqsh"'
        make = (
            f"test -e {file} || {{ {program} import --output {file}.part {uri} && mv {file}.part {file}; }}"
        )
        mounts = shlex.join(f"--mount={folder}:{folder}" for folder in self.folders)
        meeting = ["PMI_FD"] * self.is_rank  # every descriptor is handed on
        passed = shlex.join(f"--env={name}" for name in [*self._passed_on, *meeting])
        inside = shlex.quote(f'cd "$0" && {{ {command}\n}}')
        once = f"(flock 9 && {{ {make}; }}) 9>{file}.lock || exit"
        start = f'{program} start --rw {mounts} {passed} "$@" {file}'
        return f'{once}; {_COLLECT_NAMES}; exec {start} /bin/bash -c {inside} "$PWD"'

    @property
    def _passed_on(self) -> list[str]:
        return sorted({*self.variables, *PASSED_ON})

    @property
    def _memory(self) -> list[str]:
        if self.is_rank:
            return ["--ipc=host"]
        return [f"--shm-size={self.image.shm_size}"] if self.image.shm_size else []

    @property
    def _descriptors(self) -> list[str]:
        """How a rank's connection to its process manager comes into a container of podman: as the third."""
        return ["--preserve-fds=1", "--env=PMI_FD=3"] if self.is_rank and is_podman(self.engine) else []

    @property
    def removals(self) -> list[tuple[str, ...]]:
        """The commands that end the container, whatever it does; none where processes are its whole life."""
        return [] if has_own_processes(self.engine) else [(*self.engine, "rm", "--force", self.name)]


def _enroot_uri(image: str) -> str:
    """An image as enroot writes it, with a sign of its own behind the registry: `docker://host#name:tag`."""
    first, slash, rest = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return f"docker://{first}#{rest}" if is_host else f"docker://{image}"

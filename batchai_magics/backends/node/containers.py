"""Jobs in containers: the engine, the registry of an image, and the command that puts a process into one."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.node.job_environment import PROXIES, TUNING_PREFIXES
from batchai_magics.backends.node.ranks.temporary_folder import is_given
from batchai_magics.launch.plan import Image, LaunchMode, Plan, Process, Rendezvous

HUB = "https://index.docker.io/v1/"  # Docker Hub's name in credential files
HUB_HOSTS = ("docker.io", "index.docker.io", "registry-1.docker.io")


def image_name(server_url: str, image: str) -> str:
    """The full name of an image: `https://me.azurecr.io` and `tf:1` give `me.azurecr.io/tf:1`."""
    server = server_url.partition("://")[2] or server_url
    server = "docker.io" if server.partition("/")[0] in HUB_HOSTS else server.rstrip("/")
    return image if not server or image.startswith(f"{server}/") else f"{server}/{image}"


def registry_of(image: str) -> str:
    """The registry host (and port) in a full image name; Docker Hub's if it has none."""
    host = _host_in(image)
    return host if host and host not in HUB_HOSTS else HUB


def _host_in(image: str) -> str:
    """The registry host (and port) that an image name begins with; empty if it has none."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else ""


def hub_name(image: str) -> str:
    """The full name at Docker Hub of an image without a registry in its name; empty for any other."""
    first, slash, _ = image.partition("/")
    if first in HUB_HOSTS or registry_of(image) != HUB:
        return ""
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


@contextlib.contextmanager
def registry_login(folder: Path, image: str, *, username: str, password: str) -> Iterator[dict[str, str]]:
    """Signs in to the image's registry; yields the environment for docker and podman."""
    delete_credentials(folder)
    folder.mkdir(mode=0o700)
    try:
        file = folder / "config.json"
        token = base64.b64encode(f"{username}:{password}".encode()).decode()
        body = {**_docker_context(folder), "auths": {registry_of(image): {"auth": token}}}
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(body, stream)
        env = {"DOCKER_CONFIG": str(folder), "REGISTRY_AUTH_FILE": str(file)}
        if is_loopback(registry_of(image)):
            # Docker uses plain HTTP for a registry on this machine automatically; podman has to be
            # configured.
            conf = folder / "registries.conf"
            conf.write_text(f"[[registry]]\nlocation = {json.dumps(registry_of(image))}\ninsecure = true\n")
            env["CONTAINERS_REGISTRIES_CONF"] = str(conf)
        yield env
    finally:
        delete_credentials(folder)


def delete_credentials(folder: Path) -> None:
    """Deletes the credentials of a sign-in, if any."""
    shutil.rmtree(folder, ignore_errors=True)


def is_loopback(server: str) -> bool:
    """Whether a registry is on this machine."""
    import ipaddress  # its import takes longer than the rest of this module

    host = server.rpartition(":")[0] or server
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _docker_context(folder: Path) -> dict[str, str]:
    """The docker context (which daemon to use) of the user's own configuration, unaffected by the sign-in."""
    user_folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        context = json.loads((user_folder / "config.json").read_text(encoding="utf-8")).get("currentContext")
    except (OSError, ValueError, AttributeError):  # no docker, or no configuration file
        return {}
    if not isinstance(context, str):
        return {}
    (folder / "contexts").symlink_to((user_folder / "contexts").absolute())
    return {"currentContext": context}


ENGINES = ("docker", "podman", "apptainer")
DAEMONLESS = ("apptainer", "singularity", "enroot")  # containers are children of their starter
PROBE_S = 10.0
# Set for each process by the launcher and this backend; passed by name, so no value is on a command line.
FORWARDED_VARIABLES = (
    *("BATCHAI_JOB_GUID", "BATCHAI_ATTEMPT", "BATCHAI_STOPPING_FILE", "TMPDIR", "PYTHONUNBUFFERED"),
    *("PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)
# Variables that tune devices, threads, networks and MPI, and those of a Slurm task; folders and versions are
# the image's own. Bash collects the names when the container starts, since engines such as Slurm set some.
_PREFIXES = (*TUNING_PREFIXES, "SLURM_", *PROXIES)
_NOT_FORWARDED = ("HOME", "ROOT", "PATH", "DIR", "CACHE", "VERSION")  # the last word of the name
_COLLECT_NAMES = (
    f"for name in {' '.join(f'${{!{prefix}@}}' for prefix in _PREFIXES)}; do case $name in"
    f' {"|".join(f"*_{word}" for word in _NOT_FORWARDED)}) ;; *) set -- "$@" --env=$name ;; esac; done'
)

# The first process of a container ignores SIGTERM unless it handles it: the command is its child.
_IN_CHILD = """'/bin/bash -c "$0"; exit $?'"""

# Ranks in separate containers cannot read each other's memory: they copy through shared memory.
RANK_ENV = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "MPIR_CVAR_CH4_XPMEM_ENABLE": "0"}


def engine(configured: str = "") -> tuple[str, ...]:
    """The command that runs containers: the configured one, else the first that works; empty if none does."""
    if configured:
        return tuple(shlex.split(configured))
    return next(((name,) for name in ENGINES if _works(name)), ())


def _works(name: str) -> bool:
    if not shutil.which(name):
        return False
    if name in DAEMONLESS:
        return True
    try:  # the client alone is not enough: docker needs its daemon
        return not subprocess.run(
            [name, "info"], capture_output=True, timeout=PROBE_S, check=False
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def in_containers(plan: Plan, folders: Sequence[Path]) -> Plan:
    """The plan with every process in a container, if the job asks for one and an engine was found."""
    image, engine, _ = plan.containers
    if not (image and engine):
        return plan
    commands = [
        ContainerCommand(
            plan.containers.engine,
            image,
            f"batchai-{plan.guid}-{process.rank}",
            folders,
            [*plan.node_of(process).env, *_env(plan, process), *plan.secrets],
            is_rank=plan.launcher is LaunchMode.MPI,
            has_tmpdir=not is_given(plan, plan.node_of(process)),
        )
        for process in plan.processes
    ]
    processes = tuple(
        process._replace(env=_env(plan, process), command=container.command(process.command))
        for process, container in zip(plan.processes, commands, strict=True)
    )
    removals = tuple(removal for container in commands for removal in container.removals)
    rendezvous = Rendezvous.DESCRIPTOR if passes_descriptors(engine) else Rendezvous.PORT
    containers = plan.containers._replace(removals=removals)
    return plan._replace(processes=processes, containers=containers, rendezvous=rendezvous)


def _env(plan: Plan, process: Process) -> Mapping[str, str]:
    return {**RANK_ENV, **process.env} if plan.launcher is LaunchMode.MPI else process.env


REMOVAL_S = 10.0  # how long docker's own removal of a container may take: the job does not wait longer
_REMOVAL_POLL_S = 0.05


def remove(removals: Iterable[Sequence[str]], env: Mapping[str, str]) -> None:
    """Kills and removes containers, and waits for those that docker is removing already."""
    for command in removals:
        deadline = time.monotonic() + REMOVAL_S
        while time.monotonic() < deadline:
            done = subprocess.run(
                command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
            if b"is already in progress" not in done.stderr:  # as after `run --rm`
                break
            time.sleep(_REMOVAL_POLL_S)


def is_daemonless(engine: Sequence[str]) -> bool:
    """Whether containers are children of the process that starts them, without a daemon or monitor."""
    return any(name in Path(engine[0]).name for name in DAEMONLESS)


def is_enroot(engine: Sequence[str]) -> bool:
    """Whether the engine is enroot, used on Slurm clusters with the pyxis plugin."""
    return "enroot" in Path(engine[0]).name


def is_podman(engine: Sequence[str]) -> bool:
    """Whether the engine is podman, which can pass on descriptors from number 3."""
    return Path(engine[0]).name == "podman" and "--remote" not in engine


def passes_descriptors(engine: Sequence[str]) -> bool:
    """Whether a containerized process can inherit descriptors; docker's daemon has none to pass on."""
    return is_podman(engine) or is_daemonless(engine)


@dataclass(frozen=True)
class ContainerCommand:
    """A container: its engine, image, name, mounted folders, and the names of variables to pass.

    With `has_tmpdir`, the folder that TMPDIR names when it starts is mounted as well, at the same path.
    The ranks of an MPI job communicate through the host's shared memory, so its size cannot be set.
    """

    engine: tuple[str, ...]
    image: Image
    name: str
    folders: Sequence[Path]
    variables: Iterable[str]
    is_rank: bool = False
    has_tmpdir: bool = False

    def command(self, command: str) -> str:
        """The bash command that runs `command` in the container, in the current folder."""
        image = image_name(self.image.server, self.image.name)
        if is_enroot(self.engine):
            return self._enroot_command(image, command)
        if is_daemonless(self.engine):
            binds = [arg for folder in self.folders for arg in ("--bind", str(folder))]
            exec_ = shlex.join([*self.engine, "exec", *binds])
            image_uri = shlex.quote(f"docker://{image}")
            return f"exec {exec_}{self._tmpdir('--bind ')} {image_uri} /bin/bash -c {shlex.quote(command)}"
        mounts = [f"--volume={folder}:{folder}" for folder in self.folders]
        passed = [f"--env={name}" for name in self._forwarded]
        memory = [f"--shm-size={self.image.shm_size}"] if self.image.shm_size else []
        memory = ["--ipc=host"] if self.is_rank else memory
        options = ["--rm", "--network=host", f"--name={self.name}", *memory, *mounts, *passed]
        run = shlex.join([*self.engine, "run", *options, *self._descriptors])
        choose, word = self._image_choice(image)
        inner = f"{word} /bin/bash -c {_IN_CHILD} {shlex.quote(command)}"
        options_at_start = f'{self._tmpdir("--volume=")} "$@" --workdir="$PWD"'
        line = f"{choose}{_COLLECT_NAMES}; exec {run}{options_at_start} {inner}"
        return f'{line} 3<&"$PMI_FD"' if self._descriptors else line

    def _image_choice(self, image: str) -> tuple[str, str]:
        """The shell commands that choose the image's full name, and the shell word that holds it.

        podman has no default registry for short names unless one is configured: if it finds none, Docker
        Hub's name is used.
        """
        short, full = shlex.quote(image), hub_name(image)
        if not (full and is_podman(self.engine)):
            return "", short
        engine = shlex.join(self.engine)
        known = f"{engine} image exists {short} || {engine} pull --quiet {short} >/dev/null 2>&1"
        return f"image={short}; {known} || image={shlex.quote(full)}; ", '"$image"'

    def _enroot_command(self, image: str, command: str) -> str:
        """The same for enroot: the first process imports the image, once for all processes of the job."""
        if host := _host_in(image):
            image = f"{host}#{image.removeprefix(f'{host}/')}"
        program, uri = shlex.join(self.engine), shlex.quote(f"docker://{image}")
        file = '"$AZ_BATCHAI_SHARED_JOB_TEMP/.image.sqsh"'
        make = (
            f"test -e {file} || {{ {program} import --output {file}.part {uri} && mv {file}.part {file}; }}"
        )
        mounts = shlex.join(f"--mount={folder}:{folder}" for folder in self.folders)
        rendezvous = ["PMI_FD"] * self.is_rank  # enroot passes on every descriptor
        passed = shlex.join(f"--env={name}" for name in [*self._forwarded, *rendezvous])
        inner = shlex.quote(f'cd "$0" && {{ {command}\n}}')
        import_once = f"(flock 9 && {{ {make}; }}) 9>{file}.lock || exit"
        start = f'{program} start --rw {mounts}{self._tmpdir("--mount=")} {passed} "$@" {file}'
        return f'{import_once}; {_COLLECT_NAMES}; exec {start} /bin/bash -c {inner} "$PWD"'

    def _tmpdir(self, option: str) -> str:
        """The option that mounts the folder for temporary files, whose name only the shell knows."""
        return f' {option}"$TMPDIR:$TMPDIR"' if self.has_tmpdir else ""

    @property
    def _forwarded(self) -> list[str]:
        return sorted({*self.variables, *FORWARDED_VARIABLES})

    @property
    def _descriptors(self) -> list[str]:
        """Passes a rank's connection to its process manager into a podman container, as descriptor 3."""
        return ["--preserve-fds=1", "--env=PMI_FD=3"] if self.is_rank and is_podman(self.engine) else []

    @property
    def removals(self) -> list[tuple[str, ...]]:
        """The commands that remove the container; none for daemonless engines."""
        return [] if is_daemonless(self.engine) else [(*self.engine, "rm", "--force", self.name)]

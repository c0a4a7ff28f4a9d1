"""A real podman and a real docker for tests, with an image, and worlds whose jobs run in their containers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.node.job_environment import RUN_SCRIPT
from tests.world import World, until

IMAGE, MPI_IMAGE = "localhost/ours:1", "localhost/mpi:1"
# The plainest podman there is: it needs neither overlay file systems nor cgroups of its own.
PODMAN = "podman --storage-driver vfs --cgroup-manager cgroupfs --runtime runc --root {root} --runroot {run}"
DAEMON = (
    "--host unix://{place}/socket --exec-root {place}/run --pidfile {place}/pid --data-root {data}"
    " --storage-driver vfs --bridge=none --iptables=false --ip6tables=false --ip-forward=false"
)
PROGRAMS = ("bash", "cat", "env", "sleep", "touch")


LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096")


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """A folder whose path is short: podman takes 50 characters for what it runs."""
    with tempfile.TemporaryDirectory(prefix="pod-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory, short_folder: Path) -> str:
    """A podman with an image made of a few programs of this machine."""
    if not (shutil.which("podman") and shutil.which("runc")):
        pytest.skip("podman and runc are not installed")
    folder = tmp_path_factory.mktemp("podman")
    return with_image(PODMAN.format(root=folder / "pod", run=short_folder), folder)


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A docker with a daemon of its own, which touches nothing of the machine's network, and that image."""
    if not (shutil.which("docker") and shutil.which("dockerd")) or os.geteuid():
        pytest.skip("docker's daemon is not installed, or this is not root")
    folder = tmp_path_factory.mktemp("docker")
    with tempfile.TemporaryDirectory(prefix="dock-", dir="/tmp") as place, (folder / "log").open("wb") as log:
        command = f"docker --host unix://{place}/socket"
        argv = ["unshare", "--mount", "dockerd", *DAEMON.format(place=place, data=folder / "data").split()]
        with subprocess.Popen(argv, stdout=log, stderr=log) as daemon:
            info = [*command.split(), "info"]
            until(
                lambda: daemon.poll() is not None or not subprocess.run(info, capture_output=True).returncode
            )
            try:
                if daemon.poll() is not None:
                    pytest.skip(f"docker's daemon does not start here: {(folder / 'log').read_text()[-200:]}")
                yield with_image(command, folder)
            finally:
                daemon.terminate()


@pytest.fixture(scope="session", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each of the two: whoever takes it is tried with both."""
    return str(request.getfixturevalue(request.param))


def with_image(command: str, folder: Path) -> str:
    """What runs containers, once it has the image and has run it."""
    (folder / "in-the-image").write_text("yes\n")
    files = {Path("/in-the-image"): folder / "in-the-image", **files_of(PROGRAMS)}
    told = make_image(command, IMAGE, files, folder / "image.tar")
    tried = [*command.split(), "run", "--rm", "--network=host", *LIMITS, IMAGE, "/bin/bash", "-c", "true"]
    if told or subprocess.run(tried, capture_output=True).returncode:
        pytest.skip(f"{command} cannot run containers here: {told[-200:]}")
    return command


@pytest.fixture(scope="session")
def mpi_image(engine: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with this very Python, mpi4py and MPICH."""
    archive = tmp_path_factory.mktemp("mpi") / "image.tar"
    told = make_image(engine, MPI_IMAGE, {**files_of(PROGRAMS), **files_of_python("mpi4py.MPI")}, archive)
    assert not told, told
    return MPI_IMAGE


def make_image(engine: str, name: str, files: dict[Path, Path], archive: Path) -> str:
    """Makes an image of files (place in the image → file here); gives what the engine complains of."""
    placed = {os.path.normpath(place): file for place, file in files.items()}
    with tarfile.open(archive, "w", dereference=True) as tar:
        for place, file in sorted(placed.items()):
            tar.add(file, f".{place}", recursive=False)
    done = subprocess.run([*engine.split(), "import", str(archive), name], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def files_of(programs: tuple[str, ...]) -> dict[Path, Path]:
    """The programs, at /bin, and the libraries that they need."""
    found = {Path("/bin") / program: Path(shutil.which(program) or program) for program in programs}
    return {**found, **libraries_of(found.values())}


def libraries_of(programs: Iterable[Path]) -> dict[Path, Path]:
    """The libraries that programs, or libraries, need, where they look for them."""
    argv = ["ldd", *(str(place.resolve()) for place in programs)]
    words = subprocess.run(argv, capture_output=True, text=True).stdout.split()
    return {Path(word): Path(word) for word in words if word.startswith("/") and not word.endswith(":")}


LOADED = """
import importlib, runpy, sys, traceback
importlib.import_module(sys.argv[1])
runpy.run_path(sys.argv[2])
for module in list(sys.modules.values()):
    spec = getattr(module, "__spec__", None)
    print(getattr(module, "__file__", None) or "", spec and spec.cached or "", sep="\\n")
print(*(line.split()[-1] for line in open("/proc/self/maps") if ".so" in line), sep="\\n")
"""


def files_of_python(module: str) -> dict[Path, Path]:
    """This interpreter, and every file that it uses once it has a module, and what runs scripts under MPI."""
    argv = [sys.executable, "-c", LOADED, module, RUN_SCRIPT]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    loaded = {Path(line) for line in lines if line.startswith("/") and Path(line).exists()}
    loaded |= {Path(sys.executable), Path(sys.prefix) / "pyvenv.cfg"}
    loaded |= set(Path(sys.prefix, "lib").glob("libmpi*.so*"))
    libraries = libraries_of(path for path in loaded if ".so" in path.name or path == Path(sys.executable))
    return {**{path: path for path in loaded if path.exists()}, **libraries}


def limited(engine: str, folder: Path) -> Path:
    """The engine as a program that takes the limits that this machine's runc wants."""
    wrapper = folder / engine.partition(" ")[0]
    run = f'if [ "$1" = run ]; then shift; exec {engine} run {" ".join(LIMITS)} "$@"; fi'
    wrapper.write_text(f'#!/bin/bash\n{run}\nexec {engine} "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


@pytest.fixture
def boxes(engine: str, tmp_path: Path) -> Iterator[World]:
    wrapper = limited(engine, tmp_path)
    made = World(tmp_path / "home", limits=LocalSettings(container_command=str(wrapper)))
    yield made
    made.close()

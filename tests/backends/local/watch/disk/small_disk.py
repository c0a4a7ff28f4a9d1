"""What happens on a disk of 12 MB, in a mount namespace of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.errors import BatchAIError, StorageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.resource_ids import Kind
from tests.patience import PATIENCE_S
from tests.world import World, processes_of, until

SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(1000)"
FULL = """
import os, subprocess, sys
from pathlib import Path
from tests.backends.local.watch.disk.small_disk import WHAT
WHAT(Path(sys.argv[1]))
"""


def on_a_full_disk(home: Path) -> None:
    """Runs in a mount namespace of its own, with `home` on a file system of 12 MB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(home)], check=True)
    os.environ["BATCHAI_DISK_GRACE_S"] = "1"
    world = World(home / "state")
    job = world.run("fill", "import sys\nfor _ in range(40): sys.stdout.write('z' * (1 << 20))")
    (error,) = job.show().execution.errors
    seal = world.backend.read(FileRef(job.id, "stdout.txt")).seal
    print(json.dumps([job.state.value, error.code, bool(seal and seal.sha256 and seal.lost_bytes)]))
    assert "bytes are missing: the disk did not take them" in job.log()[-200:]
    for path in home.rglob("stdout.txt"):
        path.unlink()
    print(json.dumps(world.run("after", "print('room again')").log()))
    ballast = home / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"z" * 4096)
        except OSError:
            pass
    names = [item.id.name for item in world.backend.list(world.experiment, Kind.JOB)]
    try:
        world.submit("refused", "print(1)" + "#" * 100_000)
    except BatchAIError as error:
        print(json.dumps(type(error).__name__))
    ballast.unlink()
    assert [item.id.name for item in world.backend.list(world.experiment, Kind.JOB)] == names
    world.close()


HELD = """
import os, sys, time
print("up", flush=True)
while os.path.exists(sys.argv[1]):
    time.sleep(0.01)
sys.exit(int(sys.argv[2]))
"""


def codes_on_a_full_disk(home: Path) -> None:
    """Jobs end by themselves while not a byte is free, the reserve apart."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(home)], check=True)
    world = World(home / "state")
    (home / "hold").touch()
    jobs = [world.submit(f'j{code} --args "{home}/hold {code}"', HELD) for code in (0, 7)]
    until(lambda: all(job.log() == "up\n" for job in jobs))
    with (home / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"z" * 4096)
    (home / "hold").unlink()
    print(json.dumps([[job.wait(PATIENCE_S).state.value, job.exit_code] for job in jobs]))
    print(json.dumps([[rank.exit_code for rank in job.ranks()] for job in jobs]))
    (home / "ballast").unlink()
    world.close()


def endings_on_a_full_disk(home: Path) -> None:
    """Jobs are cancelled and deleted while not a byte is free, the reserve apart."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(home)], check=True)
    world = World(home / "state")
    running, doomed = world.submit("a", SLEEP), world.submit("b", SLEEP)
    until(lambda: running.log() == doomed.log() == "up\n")
    waiting, forgotten = world.submit("c --nodes 2", SLEEP), world.submit("d --nodes 2", SLEEP)
    with (home / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"z" * 4096)
    waiting.cancel()
    forgotten.delete()
    doomed.delete()
    running.cancel()
    running.wait(PATIENCE_S)
    jobs = world.backend.list(world.experiment, Kind.JOB)
    print(json.dumps([(item.id.name, item.execution.errors[0].code) for item in jobs]))
    (home / "ballast").unlink()
    print(json.dumps(world.run("after", "print('room again')").log()))
    world.close()


def listing_a_read_only_home(home: Path) -> None:
    """A home is listed and read on a disk that takes nothing."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(home)], check=True)
    world = World(home / "state")
    ran, lost = world.run("ran", "print('hello')"), world.submit("lost", SLEEP)
    until(lambda: lost.log() == "up\n")
    world.supervisor(lost).kill()
    until(lambda: not processes_of(world.home))
    world.backend.close()
    closing = ["mount", "-o", "remount,ro", str(home)]  # refused while a dying process has a file open
    until(lambda: subprocess.run(closing, capture_output=True).returncode == 0)
    backend = LocalBackend(LocalSettings(home=world.home))
    print(json.dumps([item.id.name for item in backend.list(world.experiment, Kind.JOB)]))
    print(json.dumps([Job(backend, ran.id).log(), Job(backend, lost.id).log()]))
    for change in (backend.terminate, backend.delete):
        try:
            change(lost.id)
        except StorageError as error:
            print(json.dumps(error.code))
    shown = ["-m", "batchai_magics.cli", "job", "list", "-o", "json"]
    env = {**os.environ, "BATCHAI_HOME": str(world.home), "TMPDIR": "/tmp"}
    done = subprocess.run([sys.executable, *shown], env=env, capture_output=True, text=True)
    print(json.dumps([job["name"] for job in json.loads(done.stdout or f'"{done.stderr}"')]))


def on_a_small_disk(what: str, place: Path) -> list[object]:
    """What a function of this module prints that runs in a mount namespace of its own."""
    if not can_mount():
        pytest.skip("this machine allows no mount namespaces")
    argv = ["unshare", "-Urm", sys.executable, "-c", FULL.replace("WHAT", what), str(place)]
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd=Path(__file__).parents[5], timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def can_mount() -> bool:
    argv = ["unshare", "-Urm", "true"]
    return bool(shutil.which("unshare")) and not subprocess.run(argv, capture_output=True).returncode

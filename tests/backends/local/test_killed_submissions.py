"""A submitter that is killed at any moment leaves a job with its whole record, or no job."""

from __future__ import annotations

import subprocess
import sys

import pytest

from batchai_magics.jobs.submit import find
from batchai_magics.models.runs.labels import Labels
from tests.world import World

# Forks that submit are killed at their n-th change of a file: finds the first n after which there is a job.
SUBMITTER = """
import os, signal, sys
from pathlib import Path
from batchai_magics import cell
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.submit import find, submit

EVENTS = ("open", "os.rename", "os.mkdir", "os.link", "os.symlink", "os.remove", "subprocess.Popen")
settings = Settings(sections={"local": LocalSettings(home=Path(sys.argv[1]))})

def submit_until(last):
    left = last
    def count(event, _):
        nonlocal left
        if event in EVENTS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    line = f"j{last} --args '--lr 0.5' --tag wide"
    request = cell.parse(line, "print(1)", settings=settings)
    backend = open_backend(settings)
    sys.addaudithook(count)
    submit(backend, request, settings)
    os._exit(0)

def is_there_after(last):
    child = os.fork()
    if not child:
        submit_until(last)
    os.waitpid(child, 0)
    try:
        return bool(find(open_backend(settings), f"j{last}", settings))
    except NotFoundError:
        return False

submit(open_backend(settings), cell.parse("warm", "print(1)", settings=settings), settings).job.wait()
missing, there = 0, 1024
assert not is_there_after(missing) and is_there_after(there)
while there - missing > 1:
    middle = (missing + there) // 2
    there, missing = (middle, missing) if is_there_after(middle) else (there, middle)
print(*(last for last in range(there, there + 8) if last == there or is_there_after(last)))
"""


@pytest.mark.slow
def test_a_killed_submitter_leaves_a_job_with_its_record_or_none(world: World) -> None:
    command = [sys.executable, "-c", SUBMITTER, str(world.home)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lasts = result.stdout.split()
    assert len(lasts) == 8
    for last in lasts:
        job = find(world.backend, f"j{last}", world.settings)
        assert job.labels() == Labels(("wide",), parameters={"lr": 0.5})
        assert job.provenance().submission.code.text == "print(1)"

"""A training that resumes from its checkpoint, and what it prints."""

from __future__ import annotations

import textwrap

from batchai_magics.models.resource_ids import ResourceId
from tests.contract.place import Place

# Counts to 4, two steps an attempt: it stops when it is told to, or waits to be killed.
TRAIN = """
import os, pathlib, sys, time
from batchai_magics import log, stopping
kept = pathlib.Path(os.environ["BATCHAI_CHECKPOINT_DIR"], "step")
first = int(kept.read_text()) + 1 if kept.exists() else 1
print("attempt", os.environ["BATCHAI_ATTEMPT"], "from step", first, flush=True)
for step in range(first, 5):
    kept.write_text(str(step))  # before the line that tests wait for
    log(step=step, loss=1 / step)
    while step == 2 and first == 1:
        time.sleep(0.02)
        if "polite" in sys.argv and stopping():
            print("stops", flush=True)
            sys.exit(0)
"""


def started(place: Place, *words: str, **fields: object) -> ResourceId:
    """Starts the training as a job."""
    place.backend.storage.upload(place.share, {"train.py": textwrap.dedent(TRAIN).encode()})
    script = " ".join(["python3 $AZ_BATCHAI_MOUNT_ROOT/autoafs/train.py", *words])
    return place.start(script, **fields)


def said(place: Place, id: ResourceId) -> list[str]:
    """What the training printed, without its numbers."""
    lines = place.log(id).decode().splitlines()
    return [line.partition(" on ")[0] for line in lines if not line.startswith("{")]


RESUMED = ["attempt 1 from step 1", "[batchai] attempt 2 begins", "attempt 2 from step 3"]

"""The files of a run's record: their names, who writes them, and which of them a submitter may send."""

from __future__ import annotations

from collections.abc import Mapping

FOLDER = "records"  # in a run's own folder

SUBMISSION = "submission.json"  # what the submitter knows: written with the job, never changed
LABELS = "labels.json"  # tags, note, parameters
MACHINES = "machines/"  # a file for each machine, written beside the running ranks

SUBMITTED = (SUBMISSION, LABELS)  # what `Backend.create` stores with the job
MAX_BYTES = 4 << 20  # of all that a submitter sends; of each file that is read


def check_submitted(files: Mapping[str, str]) -> None:
    """Checks the record files that come with a new job.

    Raises:
        ValueError: A name is not in `SUBMITTED`, or the files exceed `MAX_BYTES`.
    """
    for name in files:
        if name not in SUBMITTED:
            raise ValueError(f"{name!r} is not a record that comes with a job: {', '.join(SUBMITTED)}")
    size = sum(len(text.encode(errors="surrogatepass")) for text in files.values())
    if size > MAX_BYTES:
        raise ValueError(f"the records of a job have at most {MAX_BYTES} bytes, not {size}")

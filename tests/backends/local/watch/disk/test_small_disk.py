"""On a full or read-only disk the state stays honest, and jobs can be ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.backends.local.watch.disk.small_disk import on_a_small_disk

pytestmark = pytest.mark.slow
linux = pytest.mark.skipif(sys.platform != "linux", reason="mount namespaces exist only on Linux")


@linux
def test_a_full_disk_fails_the_job_clearly_and_loses_nothing(tmp_path: Path) -> None:
    told = on_a_small_disk("on_a_full_disk", tmp_path)
    assert told == [["failed", "DiskFull", True], "room again\n", "StorageError"]


@linux
def test_a_read_only_home_is_listed_and_read_and_refuses_changes(tmp_path: Path) -> None:
    names = ["ran", "lost"]
    told = on_a_small_disk("listing_a_read_only_home", tmp_path)
    lost = "up\n\n[The last log lines may be missing: the job was killed]\n"
    assert told == [names, ["hello\n", lost], "StoreReadOnly", "StoreReadOnly", names]


@linux
def test_a_job_that_ends_by_itself_on_a_full_disk_has_ended_as_it_did(tmp_path: Path) -> None:
    told = on_a_small_disk("codes_on_a_full_disk", tmp_path)
    assert told == [[["succeeded", 0], ["failed", 7]], [[0], [7]]]


@linux
def test_jobs_are_cancelled_and_deleted_on_a_full_disk(tmp_path: Path) -> None:
    told = on_a_small_disk("endings_on_a_full_disk", tmp_path)
    assert told == [[["a", "JobTerminated"], ["c", "JobTerminated"]], "room again\n"]

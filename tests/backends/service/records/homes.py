"""The homes whose records are tested: in a folder of files, and in a database."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.sqlite_repository import (
    SqliteRepository,
)
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.service.file_repository import FileRepository
from batchai_magics.backends.service.repository import CLUSTER_GUID, Record, Repository
from batchai_magics.backends.service.row_files import LOCK_EXPIRY_S
from batchai_magics.models.resource_ids import Kind, ResourceId

WORKSPACE = ResourceId("s", "g", "w", Kind.WORKSPACE, "w")
EXPERIMENT = WORKSPACE.child(Kind.EXPERIMENT, "e")
CLUSTER = WORKSPACE.child(Kind.CLUSTER, "c")
JOB = EXPERIMENT.child(Kind.JOB, "Job")


class Home(ABC):
    """A home below a folder, whose records may be opened several times, as several processes do."""

    kind: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def opened(self) -> Repository:
        """Its records, opened once more."""

    @abstractmethod
    def begin(self, records: Repository, job: Record) -> None:
        """The run of a job begins."""

    @abstractmethod
    def end(self, records: Repository, job: Record) -> None:
        """The run of a job ends."""

    @abstractmethod
    def outlive_locks(self) -> None:
        """As long passes as it takes until the locks of dead processes are broken."""


class FileHome(Home):
    """A home of files."""

    kind = "files"

    def opened(self) -> Repository:
        return FileRepository(Layout(self.folder))

    def begin(self, records: Repository, job: Record) -> None:
        records.add_open_job(job)

    def end(self, records: Repository, job: Record) -> None:
        records.remove_open_job(job)

    def outlive_locks(self) -> None:
        long_ago = time.time() - LOCK_EXPIRY_S - 5
        for lock in self.folder.rglob("*.lock"):
            os.utime(lock, (long_ago, long_ago))


class SqliteHome(Home):
    """A home with a database, in which the runner has tables of its own."""

    kind = "sqlite"

    @property
    def path(self) -> Path:
        """Its database."""
        return self.folder / "state.db"

    def opened(self) -> Repository:
        return SqliteRepository(Store(self.path))

    def begin(self, records: Repository, job: Record) -> None:
        cluster = job.more[CLUSTER_GUID]
        row = JobRow(job.resource_id.key, job.guid, cluster, 1, 0, "", False, 1.0)
        with Store(self.path).write() as db:
            statement = "INSERT OR IGNORE INTO cluster (guid, target, changed) VALUES (?, 0, 1.0)"
            db.execute(statement, (cluster,))
            job_table.insert(db, row)

    def end(self, records: Repository, job: Record) -> None:
        with Store(self.path).write() as db:
            job_table.end(db, job.guid, failed_with("Ended", "It ended"))

    def outlive_locks(self) -> None:
        """They go with the process."""


HOMES = {home.kind: home for home in (FileHome, SqliteHome)}


def record(id: ResourceId, guid: str = "1", created: float = 1.0, **more: object) -> Record:
    return Record(str(id), guid, "{}", "", created, more)


def filled(home: Home) -> Repository:
    """The records of a workspace with an experiment and a cluster."""
    records = home.opened()
    for id in (WORKSPACE, EXPERIMENT, CLUSTER):
        records.insert(record(id))
    return records


def job_named(name: str) -> ResourceId:
    return EXPERIMENT.child(Kind.JOB, name)


def another(code: str, home: Home) -> subprocess.Popen[bytes]:
    """Another process, in which `records` are those of the home and `home` is its folder."""
    lines = (
        "import sys, os, time, signal",
        "from dataclasses import replace",
        "from pathlib import Path",
        "from tests.backends.service.records.homes import *",
        "home = HOMES[sys.argv[1]](Path(sys.argv[2]))",
        "records = home.opened()",
        code,
    )
    argv = [sys.executable, "-c", "\n".join(lines), home.kind, str(home.folder)]
    return subprocess.Popen(argv, cwd=Path(__file__).parents[4])

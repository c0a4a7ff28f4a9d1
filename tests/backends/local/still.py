"""A home whose store is real and where nothing runs by itself: each step is taken by a test."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.base import NewJob, Spec
from batchai_magics.backends.local import machine_devices, process, reconciler
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.machine_devices import MachineDevices
from batchai_magics.backends.local.runner import LocalRunner
from batchai_magics.backends.local.scheduler import record_end
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import node_table
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.service import job_admission, resource_changes
from batchai_magics.backends.service.context import HomeContext
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec
from tests.wire_bodies import manual, plain_cluster, plain_job

WORKSPACE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/w"


class Still:
    """A workspace `w` with an experiment `e`; nothing is started for its jobs and nodes."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.backend = LocalBackend(LocalSettings(home=home))
        self.layout, self.store = self.backend.layout, self.backend.store
        self.workspace = ResourceId.parse(WORKSPACE)
        self.experiment = self.workspace.child(Kind.EXPERIMENT, "e")
        self.children: list[subprocess.Popen[bytes]] = []
        self.create(self.workspace, WorkspaceSpec())
        self.create_experiment()

    def create_experiment(self) -> None:
        """The experiment, unless it is there."""
        self.create(self.experiment, ExperimentSpec())

    def create(
        self, id: ResourceId, spec: Spec, *, limits: LocalSettings | None = None, owner: str = ""
    ) -> ResourceId:
        """Writes a resource down; nothing more."""
        if isinstance(spec, JobSpec):
            job_admission.create_jobs(self.context(limits), [NewJob(id, spec, owner=owner)])
        else:
            resource_changes.create(self.context(limits), id, spec, owner)
        return id

    def context(self, limits: LocalSettings | None = None) -> HomeContext:
        """The home as the service knows it, with an engine that starts nothing of what others create."""
        settings = replace(limits or LocalSettings(), home=self.home)
        runner = LocalRunner(self.store, self.layout, settings)
        return replace(self.backend.context, runner=runner, core_quota=settings.core_quota)

    def cluster(
        self,
        name: str = "c",
        *,
        scale: Mapping[str, object] | None = None,
        limits: LocalSettings | None = None,
        **fields: object,
    ) -> ResourceId:
        """A cluster, of two nodes unless `scale` says otherwise; its nodes are being prepared."""
        body = plain_cluster(scaleSettings=scale or manual(2), **fields)
        id = self.workspace.child(Kind.CLUSTER, name)
        return self.create(id, ClusterSpec.from_wire(body), limits=limits)

    def job(
        self,
        name: str = "j",
        count: int = 1,
        *,
        cluster: str = "c",
        owner: str = "",
        limits: LocalSettings | None = None,
        **fields: object,
    ) -> ResourceId:
        """A queued job of a user."""
        body = plain_job(self.workspace.child(Kind.CLUSTER, cluster), nodeCount=count, **fields)
        id = self.experiment.child(Kind.JOB, name)
        return self.create(id, JobSpec.from_wire(body), limits=limits, owner=owner)

    def prepare(self) -> None:
        """Makes the nodes ready."""
        self.children += reconciler.prepare_nodes(self.store, self.layout)

    def schedule(self) -> None:
        """Gives idle nodes to queued jobs."""
        self.children += reconciler.start_jobs(self.store, self.layout)

    def assigned(self) -> list[str]:
        """The names of the jobs that have nodes."""
        keys = self.rows("SELECT key FROM job WHERE is_assigned = 1 ORDER BY key")
        return [key.rpartition("/")[2] for (key,) in keys]

    def state(self, job: ResourceId) -> sqlite3.Row:
        """A job's row."""
        (row,) = self.rows("SELECT * FROM job WHERE key = ?", job.key)
        return row

    def fail(self, job: ResourceId) -> None:
        """Ends a job as its supervisor would; its nodes are idle again."""
        with self.store.write() as db:
            record_end(db, self.state(job)["guid"], failed_with("JobFailed", "it was told to"))

    def nodes(self, cluster: ResourceId) -> dict[str, str]:
        """The state of each node by its id, in the order of their making."""
        query = "SELECT id, state FROM node WHERE cluster = ? ORDER BY ordinal"
        return {row["id"]: row["state"] for row in self.rows(query, self.guid(cluster))}

    def resize(self, cluster: ResourceId, target: int, option: str = "requeue") -> list[str]:
        """Changes the number of nodes; gives the guids of the jobs that have to stop."""
        with self.store.write() as db:
            return node_table.resize(db, self.guid(cluster), target, node_table.DeallocationOption(option))

    def patch(self, cluster: ResourceId, scale: Mapping[str, object], *, core_quota: int = 20) -> list[str]:
        """The same for any scale settings."""
        patch = ClusterPatch.from_wire({"properties": {"scaleSettings": scale}})
        resource_changes.resize(self.context(LocalSettings(core_quota=core_quota)), cluster, patch)
        return [guid for (guid,) in self.rows("SELECT guid FROM job WHERE stop != ''")]

    def guid(self, id: ResourceId) -> str:
        """The guid of a resource."""
        return self.backend.context.repository.get(id).guid

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """What the store says."""
        with self.store.read() as db:
            return db.execute(query, values).fetchall()

    def change(self, statement: str, *values: object) -> None:
        """Changes what the store says."""
        with self.store.write() as db:
            db.execute(statement, values)

    def close(self) -> None:
        """Ends what was started."""
        for child in self.children:
            child.wait()
        self.store.close()


def dead() -> str:
    """The identity of a process that is no more."""
    return f"{os.getpid()}:1:another boot"


class Stand:
    """Stands in for a supervisor: the process that every other one comes from, which never ends."""

    pid = 1

    def wait(self) -> None:
        """There is nothing to wait for."""

    def poll(self) -> None:
        """It runs on."""


@pytest.fixture
def no_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each supervisor there is a stand."""
    monkeypatch.setattr(process, "start", lambda *_, **__: Stand())


def has_devices(monkeypatch: pytest.MonkeyPatch, core_count: int, gpus: Iterable[str] = ()) -> None:
    """This machine has these devices from now on."""
    here = MachineDevices(core_count, tuple(gpus))
    monkeypatch.setattr(machine_devices, "machine", lambda: here)


@pytest.fixture
def still(tmp_path: Path, no_supervisor: None) -> Iterator[Still]:
    made = Still(tmp_path / "home")
    yield made
    made.close()

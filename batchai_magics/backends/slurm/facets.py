"""What the Slurm backend has beside its core: commands on nodes, telemetry, quotas, groups."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Mapping, Sequence

from batchai_magics.backends.base import Accounts, CommandOutput
from batchai_magics.backends.folders import telemetry
from batchai_magics.backends.machines.machine import Line
from batchai_magics.backends.service import private_files, quotas, refusals
from batchai_magics.backends.service.groups import OwnGroups
from batchai_magics.backends.slurm import commands, creation, deletion, programs, say, talk
from batchai_magics.backends.slurm.creation import Home
from batchai_magics.backends.slurm.records import Records
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.subscription import Usage
from batchai_magics.models.telemetry import TelemetryRecord


class NodeCommands:
    """Commands on nodes: beside a job's processes, or as a short job of their own where none of ours runs."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def execute(self, id: ResourceId, node_id: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
        """Runs a shell command on a node, in its folder and environment; gives its output as it comes."""
        home = self._home
        record = home.records.get(id)
        is_job = id.kind is Kind.JOB
        guid = record.more["cluster_guid"] if is_job else record.guid
        busy = home.clusters.busy(guid)
        is_its = node_id in busy if is_job else home.clusters.has_node(record, node_id)
        if not is_its or (is_job and busy[node_id].job != record.resource_id):
            raise refusals.node_not_found(node_id)
        folder = home.layout.node(guid, node_id)
        private_files.make_folder(folder)
        code_file = folder / f"command-{uuid.uuid4().hex}"
        in_shell = f"export AZ_BATCHAI_MOUNT_ROOT={shlex.quote(str(home.layout.mounts(guid)))}; {command}"
        words = say.Command(self._place(guid, node_id), in_shell, code_file).words(
            python=home.python, programs=programs.installed(home.layout.home)
        )
        env = talk.environment(home.machine, home.python, home.settings.conf)
        line = Line(words, env, str(folder))
        return commands.run(home.machine, line, code_file=code_file, tick_s=tick_s)

    def _place(self, cluster_guid: str, node: str) -> list[str]:
        """The options of srun by which a command gets to a node of a cluster."""
        for run in self._home.clusters.open_runs(cluster_guid):
            if run.standing.begun and node in [each.id for each in run.nodes]:
                return say.beside_job(run.standing.begun.slurm_job, node)
        record = next(each for each in self._home.records.clusters() if each.guid == cluster_guid)
        options = shlex.split(record.more["options"])
        return say.alone(record.more["partition"], node, options)


class Telemetry:
    """Samples in the folders of jobs."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples that were taken later than `after`."""
        record = self._home.records.get(job)
        return telemetry.read(self._home.layout.job(record.guid).telemetry, after)


class Ownership:
    """The owners in the records."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def within(self, key: str) -> Mapping[str, str]:
        """The known owners of what is of that key or inside it, by key."""
        return self._records.owners(key)


class Usages:
    """The quotas of a home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def list(self, location: str) -> Sequence[Usage]:
        """What is used of each quota; the cluster is every location."""
        return quotas.usages(creation.usages(self._home), self._home.settings.core_quota)


def groups(home: Home, accounts: Accounts) -> OwnGroups:
    """The resource groups of a home."""
    return OwnGroups(
        home.groups,
        accounts,
        workspaces=lambda: [workspace.resource_id for workspace in home.records.workspaces()],
        delete=lambda workspace: deletion.delete(home, workspace),
    )

"""`batchai cluster …` and `file-server create`."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchai_magics.backends.base.capabilities import JobNeeds
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import machine_options, resource_commands
from batchai_magics.commands.handlers.machine_options import auto_storage
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import ServiceError, UsageError, command_error, visible_lines
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models import vm_sizes
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.documents.description import NOTHING, load_file
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.job_spec import JobSpec, PreflightMode
from batchai_magics.models.mount_volumes import AccountKey, with_volumes
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, ExperimentSpec, Resource
from batchai_magics.records.preflight import PreflightReport, size_text

_ACCOUNT = "properties.userAccountSettings"
_SSH_CONFIGURATION = "properties.sshConfiguration"
_SERVER_ACCOUNT = f"{_SSH_CONFIGURATION}.userAccountSettings"
_DISKS = {  # option → field, and the message of `az` where it is missing
    "disk_count": ("diskCount", "Please provide number of data disks (at least one disk is required)."),
    "disk_size": ("diskSizeInGB", "Please provide disk size in Gb."),
    "storage_sku": ("storageAccountType", "Please provide storage account type (storage sku)."),
}
_MAX_BELOW_MIN = "Maximum nodes count must be greater or equal to minimum nodes count"
_CHECK_EXPERIMENT = "preflight"  # the experiment of jobs that measure clusters
_CHECK_TITLES = (
    *("Node", "Result", "Processor", "Memory", "Disk", "Network"),
    *("Free memory", "Free disk", "GPUs", "Python", "Findings"),
)


def create(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Creates a cluster from its file and options; options override the file."""
    id = context.target(arguments, Kind.CLUSTER)
    resource_commands.check_is_new(context, id)
    account, file = machine_options.account_of(context, arguments), arguments.config_file
    description = load_file(ClusterSpec, Path(file).expanduser(), account=account) if file else NOTHING
    body = _body(context, arguments, id, description.body, account=account)
    notes = (*description.notes, *machine_options.notes(arguments))
    if not body.get("scaleSettings"):
        if context.backend.prices is None:
            raise command_error(
                "Please provide scale setting for the cluster via command line or configuration file",
                hint="Add -t with the number of nodes.",
            )
        max_nodes = context.settings.cluster_nodes
        body["scaleSettings"] = _auto_scale(0, max_nodes, None)
        bounds = f"The cluster scales between 0 and {max_nodes} nodes, since they cost money"
        notes = (*notes, f"{bounds}; --min and --max set others.")
    spec = description.checked(ClusterSpec, body)  # before anything is created
    if context.backend.capabilities.known_sizes:
        vm_sizes.lookup(spec.vm_size)
    if arguments.use_auto_storage:
        volumes, created_notes = auto_storage(context.backend, context.workspace_location(id))
        setup = body.get("nodeSetup") or {}
        mounted = with_volumes(setup.get("mountVolumes"), volumes)
        body = {**body, "nodeSetup": {**setup, "mountVolumes": mounted}}
        notes = (*notes, *created_notes)
    spec = description.checked(ClusterSpec, body)
    context.ensure_workspace(id)
    created = context.backend.create(id, spec)
    return ValueWithNotes(created, (*notes, *created.notes) if isinstance(created, Cluster) else notes)


def show(context: Context, arguments: Namespace) -> Resource:
    """The cluster named on the line, else the session's."""
    if not (arguments.name or getattr(arguments, "ids", None)):
        arguments.name = context.settings.cluster
    return resource_commands.show(context, arguments, Kind.CLUSTER)


def list_all(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The clusters of the workspace, oldest first."""
    from batchai_magics.jobs.job_costs import JobCosts

    clusters = resource_commands.list_children(context, context.workspace(arguments), Kind.CLUSTER)
    notes = JobCosts(context.backend, context.settings).idle_notes(clusters)
    return ValueWithNotes(clusters, tuple(notes))


def resize(context: Context, arguments: Namespace) -> Resource:
    """Changes a cluster's number of nodes."""
    scale = {"manual": {"targetNodeCount": arguments.target}}
    patch = ClusterPatch.from_wire({"properties": {"scaleSettings": scale}})
    return context.backend.update(context.target(arguments, Kind.CLUSTER), patch)


def auto_scale(context: Context, arguments: Namespace) -> Resource:
    """Makes a cluster scale with its queue."""
    minimum, maximum = arguments.min, arguments.max
    if maximum < minimum:
        raise command_error(_MAX_BELOW_MIN)
    counts = {"minimumNodeCount": minimum, "maximumNodeCount": maximum, "initialNodeCount": 0}
    patch = ClusterPatch.from_wire({"properties": {"scaleSettings": {"autoScale": counts}}})
    return context.backend.update(context.target(arguments, Kind.CLUSTER), patch)


def _body(
    context: Context,
    arguments: Namespace,
    id: ResourceId,
    file_body: Mapping[str, Any],
    *,
    account: AccountKey,
) -> dict[str, Any]:
    """The cluster's `properties`: those of the file, overridden by the options."""
    body = dict(file_body)
    image = machine_options.image_reference(arguments.image, arguments.custom_image)
    chosen = {
        "vmSize": arguments.vm_size,
        "vmPriority": arguments.vm_priority,
        "scaleSettings": _scale(arguments),
        "virtualMachineConfiguration": image and {"imageReference": image},
        "subnet": machine_options.subnet_reference(arguments.subnet),
    }
    body.update({key: value for key, value in chosen.items() if value})
    if not body.get("vmSize"):
        raise command_error("Please provide VM size", hint="Add -s, such as -s Standard_NC6.")
    body["userAccountSettings"] = machine_options.account_settings(
        arguments, machine_options.object_of(body, "userAccountSettings", _ACCOUNT), context.backend
    )
    setup = machine_options.object_of(body, "nodeSetup", "properties.nodeSetup")
    if arguments.setup_task:
        if not arguments.setup_task_output:
            raise command_error("--setup-task requires providing of --setup-task-output")
        task = {"commandLine": arguments.setup_task, "stdOutErrPathPrefix": arguments.setup_task_output}
        setup["setupTask"] = task
    volumes = machine_options.with_mounts(setup.get("mountVolumes"), arguments, account, owner=id)
    if volumes := machine_options.with_keys(volumes, context.backend):
        setup["mountVolumes"] = volumes
    if setup:
        body["nodeSetup"] = setup
    subnet = machine_options.subnet_of_servers(context, arguments.nfs, body.get("subnet"), owner=id)
    return {**body, "subnet": subnet} if subnet else body


def _scale(arguments: Namespace) -> dict[str, Any] | None:
    """The `scaleSettings` of -t, --min and --max; None without them."""
    target, bounds = arguments.target, (arguments.min, arguments.max)
    if bounds == (None, None):
        return None if target is None else {"manual": {"targetNodeCount": target}}
    if None in bounds:
        raise command_error(
            "You need to either provide both min and max node counts or not provide any of them"
        )
    return _auto_scale(*bounds, target)


def _auto_scale(minimum: int, maximum: int, target: int | None) -> dict[str, Any]:
    """Auto-scale between two counts; manual scale where they are equal."""
    if maximum < minimum:
        raise command_error(_MAX_BELOW_MIN)
    if minimum == maximum and target in (None, minimum):
        return {"manual": {"targetNodeCount": minimum}}
    counts = {"minimumNodeCount": minimum, "maximumNodeCount": maximum, "initialNodeCount": target or 0}
    return {"autoScale": counts}


@dataclass(frozen=True)
class PreflightResult:
    """What was measured on nodes, as table, data and text."""

    report: PreflightReport
    job: str

    def to_data(self) -> Any:
        """Everything that was measured, and the job that did it."""
        return {"job": self.job, **self.report.to_json()}

    def to_table(self) -> Table:
        """A row for each node; rates are per second."""
        rows = []
        for node in self.report.nodes:
            rates = (node.processor_rate, node.memory_rate, node.disk_rate, node.network_rate)
            sizes = (node.memory_free_bytes, node.disk_free_bytes)
            findings = [finding.text for finding in self.report.findings if finding.node == node.node]
            row = (
                node.node,
                self.report.result_of(node.node),
                *(f"{size_text(rate)}/s" if rate else "" for rate in rates),
                *(size_text(size) if size else "" for size in sizes),
                str(len(node.gpus)),
                node.python,
                visible_lines("; ".join(findings)),
            )
            rows.append(row)
        return Table(_CHECK_TITLES, tuple(rows))

    @property
    def terminal_text(self) -> str:
        """The table, then the result as a sentence."""
        return f"{self.to_table().to_text()}\n\n{visible_lines(self.report.sentence)}"


def check(context: Context, arguments: Namespace) -> PreflightResult:
    """Measures nodes with a job of their cluster, which waits until they are free."""
    cluster = show(context, arguments)
    assert isinstance(cluster, Cluster)
    count = arguments.nodes or cluster.node_states.total
    if not count:
        hint = "Give --nodes N, or resize the cluster: an auto-scaled one adds nodes for the check."
        raise UsageError(f"cluster {cluster.id.name} has no nodes now", hint=hint)
    experiment = cluster.id.workspace_id.child(Kind.EXPERIMENT, _CHECK_EXPERIMENT)
    id = experiment.child(Kind.JOB, f"{cluster.id.name[:40]}-{time.strftime('%Y%m%d-%H%M%S')}")
    properties = {
        "cluster": {"id": str(cluster.id)},
        "nodeCount": count,
        "schedulingPriority": "high",
        "stdOutErrPathPrefix": "preflight",
        "customToolkitSettings": {"commandLine": "true"},
        "batchaiPreflight": PreflightMode.STOP.value,
    }
    spec = JobSpec.from_wire({"properties": properties})
    context.backend.ensure(JobNeeds(id, [(experiment, ExperimentSpec())]))
    context.backend.create(id, spec)
    job = Job(context.backend, id)
    try:
        job.wait()
    except KeyboardInterrupt:
        job.cancel()
        raise
    report = job.preflight()
    if report is None:
        execution = job.show().execution
        errors = [error.message for error in execution.errors] if execution else []
        raise ServiceError("; ".join(errors) or "the nodes could not be measured", code="NotChecked")
    return PreflightResult(report, id.name)


def create_file_server(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Creates a file server from its file and options; options override the file."""
    id = context.target(arguments, Kind.FILE_SERVER)
    resource_commands.check_is_new(context, id)
    file = arguments.config_file
    description = load_file(FileServerSpec, Path(file).expanduser()) if file else NOTHING
    # the server's `properties`: those of the file, overridden by the options
    body = dict(description.body)
    chosen = {"vmSize": arguments.vm_size, "subnet": machine_options.subnet_reference(arguments.subnet)}
    body.update({key: value for key, value in chosen.items() if value})
    if not body.get("vmSize"):
        raise command_error("Please provide VM size.", hint="Add -s, such as -s Standard_D2.")
    ssh = machine_options.object_of(body, "sshConfiguration", _SSH_CONFIGURATION)
    file_account = machine_options.object_of(ssh, "userAccountSettings", _SERVER_ACCOUNT)
    ssh["userAccountSettings"] = machine_options.account_settings(arguments, file_account, context.backend)
    disks = dict(machine_options.object_of(body, "dataDisks", "properties.dataDisks"))
    for option, (field, missing_message) in _DISKS.items():
        value = getattr(arguments, option)
        if value is not None:
            disks[field] = value
        if not disks.get(field):
            raise command_error(missing_message)
    if arguments.caching_type:
        disks["cachingType"] = arguments.caching_type
    spec = description.checked(FileServerSpec, {**body, "sshConfiguration": ssh, "dataDisks": disks})
    context.ensure_workspace(id)
    notes = (*description.notes, *machine_options.notes(arguments))
    return ValueWithNotes(context.backend.create(id, spec), notes)

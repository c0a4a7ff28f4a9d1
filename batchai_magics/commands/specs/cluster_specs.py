"""Command specs of `workspace …`, `experiment …`, `cluster …` and `file-server …`."""

from __future__ import annotations

from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import CommandSpec, standard_commands
from batchai_magics.models.resource_ids import Kind
from batchai_magics.options.option import NameKind, Option, ValueKind

WORKSPACE_GROUPS = {
    "workspace": "Workspaces, which hold clusters and experiments.",
    "experiment": "Experiments, which hold jobs.",
}

_WORKSPACE = (
    o.GROUP,
    Option(
        ("--name", "-n", "--workspace"),
        "Name of the workspace.",
        is_required=True,
        completes=NameKind.WORKSPACE,
    ),
)
_EXPERIMENT = (o.GROUP, o.WORKSPACE, o.name_option("experiment", NameKind.EXPERIMENT))

WORKSPACE_COMMANDS = (
    CommandSpec(
        "workspace create",
        "Create a workspace.",
        "handlers.workspace_commands:create_workspace",
        (*_WORKSPACE, o.LOCATION),
    ),
    *standard_commands(
        Kind.WORKSPACE,
        one=_WORKSPACE,
        several=(o.GROUP,),
        list_all=CommandSpec(
            "workspace list", "List workspaces.", "handlers.workspace_commands:list_workspaces", (o.GROUP,)
        ),
    ),
)
EXPERIMENT_COMMANDS = (
    CommandSpec(
        "experiment create",
        "Create an experiment.",
        "handlers.workspace_commands:create_experiment",
        _EXPERIMENT,
    ),
    *standard_commands(Kind.EXPERIMENT, one=_EXPERIMENT, several=(o.GROUP, o.WORKSPACE)),
    CommandSpec(
        "experiment wait",
        "Wait until all jobs of an experiment have ended.",
        "handlers.workspace_commands:wait_for_experiment",
        (o.GROUP, o.WORKSPACE, o.name_option("experiment", NameKind.EXPERIMENT, is_required=False)),
    ),
)


CLUSTER_GROUPS = {
    "cluster": "Clusters: the nodes that jobs run on.",
    "cluster node": "The nodes of a cluster.",
    "cluster file": "The files that a cluster's setup task wrote.",
    "file-server": "File servers, which clusters and jobs mount.",
}

_NODES = "Nodes Arguments"
_SETUP = "Setup Task Arguments"
_DISKS = "Storage Disks Arguments"
_CLUSTER = (o.GROUP, o.WORKSPACE, o.name_option("cluster", NameKind.CLUSTER))
_SERVER = (o.GROUP, o.WORKSPACE, o.name_option("file server", NameKind.FILE_SERVER))
_SHOWN = (
    o.GROUP,
    o.WORKSPACE,
    o.name_option("cluster; by default the session's", NameKind.CLUSTER, is_required=False),
)
_OF_CLUSTER = (
    o.GROUP,
    o.WORKSPACE,
    Option(("--cluster", "-c"), "Name of the cluster.", is_required=True, completes=NameKind.CLUSTER),
)
_TARGET = Option(("--target", "-t"), "Number of nodes.", value_kind=ValueKind.NUMBER, section=_NODES)
_MIN = Option(("--min",), "Fewest nodes (auto-scale).", value_kind=ValueKind.NUMBER, section=_NODES)
_MAX = Option(("--max",), "Most nodes (auto-scale).", value_kind=ValueKind.NUMBER, section=_NODES)
_CREATE = (
    o.GROUP,
    o.WORKSPACE,
    o.name_option("cluster", NameKind.NOTHING),
    Option(("--config-file", "-f"), "The cluster as JSON or YAML (cluster.json).", completes=NameKind.PATH),
    *o.ADMIN,
    Option(
        ("--image", "-i"),
        "UbuntuLTS, UbuntuDSVM, or publisher:offer:sku:version; kept, nodes are this machine's.",
        section=_NODES,
    ),
    Option(("--custom-image",), "ARM id of an image; needs --image.", section=_NODES),
    Option(("--vm-size", "-s"), "VM size, such as Standard_NC6.", section=_NODES),
    Option(
        ("--vm-priority",),
        "Whether nodes may be preempted.",
        choices=("dedicated", "lowpriority"),
        section=_NODES,
    ),
    _TARGET,
    _MIN,
    _MAX,
    Option(
        ("--use-auto-storage",),
        "Mount a share at autoafs and a container at autobfs, in an account made for them.",
        value_kind=ValueKind.NOTHING,
        section="Auto Storage Arguments",
    ),
    *o.MOUNTS,
    Option(("--setup-task",), "Command that is run on each node before it takes jobs.", section=_SETUP),
    Option(("--setup-task-output",), "Folder for its logs, on a mount.", section=_SETUP),
    o.SUBNET,
)
_CREATE_SERVER = (
    o.GROUP,
    o.WORKSPACE,
    o.name_option("file server", NameKind.NOTHING),
    Option(("--config-file", "-f"), "The file server as JSON or YAML.", completes=NameKind.PATH),
    Option(("--vm-size", "-s"), "VM size, such as Standard_D2."),
    o.NO_WAIT,
    *o.ADMIN,
    Option(("--disk-count",), "Number of data disks.", value_kind=ValueKind.NUMBER, section=_DISKS),
    Option(("--disk-size",), "Size of each disk in Gb.", value_kind=ValueKind.NUMBER, section=_DISKS),
    Option(
        ("--caching-type",),
        "How the disks are cached.",
        choices=("none", "readonly", "readwrite"),
        section=_DISKS,
    ),
    Option(
        ("--storage-sku",),
        "What the disks are made of.",
        choices=("Premium_LRS", "Standard_LRS"),
        section=_DISKS,
    ),
    o.SUBNET,
)
_NODE = Option(("--node-id", "-n"), "Id of the node.", is_required=True, completes=NameKind.NODE)

CLUSTER_COMMANDS = (
    CommandSpec("cluster create", "Create a cluster.", "handlers.cluster_commands:create", _CREATE),
    *standard_commands(
        Kind.CLUSTER,
        one=_CLUSTER,
        several=(),
        show=CommandSpec(
            "cluster show", "Show a cluster.", "handlers.cluster_commands:show", (*_SHOWN, o.IDS)
        ),
        list_all=CommandSpec(
            "cluster list", "List clusters.", "handlers.cluster_commands:list_all", (o.GROUP, o.WORKSPACE)
        ),
    ),
    CommandSpec(
        "cluster resize",
        "Change a cluster's number of nodes.",
        "handlers.cluster_commands:resize",
        (*_CLUSTER, o.IDS, o.required(_TARGET)),
    ),
    CommandSpec(
        "cluster auto-scale",
        "Let a cluster grow and shrink with its queue.",
        "handlers.cluster_commands:auto_scale",
        (*_CLUSTER, o.IDS, o.required(_MIN), o.required(_MAX)),
    ),
    CommandSpec(
        "cluster check",
        "Measure the nodes of a cluster and the network between them; name those that are bad or slow.",
        "handlers.cluster_commands:check",
        (*_SHOWN, Option(("--nodes",), "Number of nodes; by default all.", value_kind=ValueKind.NUMBER)),
    ),
    CommandSpec(
        "cluster node list",
        "List the nodes of a cluster.",
        "handlers.node_commands:list_all",
        _OF_CLUSTER,
        kind=Kind.CLUSTER,
    ),
    CommandSpec(
        "cluster node exec",
        "Run a command on a node of a cluster.",
        "handlers.node_commands:execute",
        (*_OF_CLUSTER, *o.NODE_EXEC),
        kind=Kind.CLUSTER,
    ),
    CommandSpec(
        "cluster node preempt",
        "Preempt a node of a lowpriority cluster.",
        "handlers.node_commands:preempt",
        (*_OF_CLUSTER, _NODE),
    ),
    CommandSpec(
        "cluster file list",
        "List what a cluster's setup task wrote.",
        "handlers.output_file_commands:list_of_cluster",
        (*_OF_CLUSTER, o.PATH, o.EXPIRY),
    ),
    CommandSpec(
        "file-server create",
        "Create a file server.",
        "handlers.cluster_commands:create_file_server",
        _CREATE_SERVER,
    ),
    *standard_commands(Kind.FILE_SERVER, one=_SERVER, several=(o.GROUP, o.WORKSPACE)),
)

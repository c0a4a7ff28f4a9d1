"""Command specs of `workspace …`, `experiment …`, `cluster …` and `file-server …`."""

from __future__ import annotations

from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import commands_in, standard_commands
from batchai_magics.models.resource_ids import Kind
from batchai_magics.options.option import NameKind, Option, ValueKind, in_section, switch

_workspaces = commands_in("handlers.workspace_commands")
_clusters = commands_in("handlers.cluster_commands")
_nodes = commands_in("handlers.node_commands")
_files = commands_in("handlers.output_file_commands")
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
    _workspaces(
        "workspace create", "Create a workspace.", (*_WORKSPACE, o.LOCATION), function="create_workspace"
    ),
    *standard_commands(
        Kind.WORKSPACE,
        one=_WORKSPACE,
        several=(o.GROUP,),
        list_all=_workspaces("workspace list", "List workspaces.", (o.GROUP,), function="list_workspaces"),
    ),
)
EXPERIMENT_COMMANDS = (
    _workspaces("experiment create", "Create an experiment.", _EXPERIMENT, function="create_experiment"),
    *standard_commands(Kind.EXPERIMENT, one=_EXPERIMENT, several=(o.GROUP, o.WORKSPACE)),
    _workspaces(
        "experiment wait",
        "Wait until all jobs of an experiment have ended.",
        (o.GROUP, o.WORKSPACE, o.name_option("experiment", NameKind.EXPERIMENT, is_required=False)),
        function="wait_for_experiment",
    ),
)


CLUSTER_GROUPS = {
    "cluster": "Clusters: the nodes that jobs run on.",
    "cluster node": "The nodes of a cluster.",
    "cluster file": "The files that a cluster's setup task wrote.",
    "file-server": "File servers, which clusters and jobs mount.",
}

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
_TARGET, _MIN, _MAX = in_section(
    "Nodes Arguments",
    Option(("--target", "-t"), "Number of nodes.", value_kind=ValueKind.NUMBER),
    Option(("--min",), "Fewest nodes (auto-scale).", value_kind=ValueKind.NUMBER),
    Option(("--max",), "Most nodes (auto-scale).", value_kind=ValueKind.NUMBER),
)
_CREATE = (
    o.GROUP,
    o.WORKSPACE,
    o.name_option("cluster", NameKind.NOTHING),
    Option(("--config-file", "-f"), "The cluster as JSON or YAML (cluster.json).", completes=NameKind.PATH),
    *o.ADMIN,
    *in_section(
        "Nodes Arguments",
        Option(
            ("--image", "-i"),
            "UbuntuLTS, UbuntuDSVM, or publisher:offer:sku:version; kept, nodes are this machine's.",
        ),
        Option(("--custom-image",), "ARM id of an image; needs --image."),
        Option(("--vm-size", "-s"), "VM size, such as Standard_NC6."),
        Option(("--vm-priority",), "Whether nodes may be preempted.", choices=("dedicated", "lowpriority")),
    ),
    _TARGET,
    _MIN,
    _MAX,
    *in_section(
        "Auto Storage Arguments",
        switch(
            "--use-auto-storage",
            help="Mount a share at autoafs and a container at autobfs, in an account made for them.",
        ),
    ),
    *o.MOUNTS,
    *in_section(
        "Setup Task Arguments",
        Option(("--setup-task",), "Command that is run on each node before it takes jobs."),
        Option(("--setup-task-output",), "Folder for its logs, on a mount."),
    ),
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
    *in_section(
        "Storage Disks Arguments",
        Option(("--disk-count",), "Number of data disks.", value_kind=ValueKind.NUMBER),
        Option(("--disk-size",), "Size of each disk in Gb.", value_kind=ValueKind.NUMBER),
        Option(("--caching-type",), "How the disks are cached.", choices=("none", "readonly", "readwrite")),
        Option(("--storage-sku",), "What the disks are made of.", choices=("Premium_LRS", "Standard_LRS")),
    ),
    o.SUBNET,
)
_NODE = Option(("--node-id", "-n"), "Id of the node.", is_required=True, completes=NameKind.NODE)

CLUSTER_COMMANDS = (
    _clusters("cluster create", "Create a cluster.", _CREATE),
    *standard_commands(
        Kind.CLUSTER,
        one=_CLUSTER,
        several=(),
        show=_clusters("cluster show", "Show a cluster.", (*_SHOWN, o.IDS)),
        list_all=_clusters("cluster list", "List clusters.", (o.GROUP, o.WORKSPACE), function="list_all"),
    ),
    _clusters(
        "cluster resize", "Change a cluster's number of nodes.", (*_CLUSTER, o.IDS, o.required(_TARGET))
    ),
    _clusters(
        "cluster auto-scale",
        "Let a cluster grow and shrink with its queue.",
        (*_CLUSTER, o.IDS, o.required(_MIN), o.required(_MAX)),
    ),
    _clusters(
        "cluster check",
        "Measure the nodes of a cluster and the network between them; name those that are bad or slow.",
        (*_SHOWN, Option(("--nodes",), "Number of nodes; by default all.", value_kind=ValueKind.NUMBER)),
    ),
    _nodes(
        "cluster node list",
        "List the nodes of a cluster.",
        _OF_CLUSTER,
        function="list_all",
        kind=Kind.CLUSTER,
    ),
    _nodes(
        "cluster node exec",
        "Run a command on a node of a cluster.",
        (*_OF_CLUSTER, *o.NODE_EXEC),
        function="execute",
        kind=Kind.CLUSTER,
    ),
    _nodes("cluster node preempt", "Preempt a node of a lowpriority cluster.", (*_OF_CLUSTER, _NODE)),
    _files(
        "cluster file list",
        "List what a cluster's setup task wrote.",
        (*_OF_CLUSTER, o.PATH, o.EXPIRY),
        function="list_of_cluster",
    ),
    _clusters("file-server create", "Create a file server.", _CREATE_SERVER, function="create_file_server"),
    *standard_commands(Kind.FILE_SERVER, one=_SERVER, several=(o.GROUP, o.WORKSPACE)),
)

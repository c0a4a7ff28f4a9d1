"""`cluster …` and `file-server …`."""

from __future__ import annotations

from batchai_magics.commands.parsing import arguments as o
from batchai_magics.commands.parsing.arguments import usual
from batchai_magics.commands.parsing.tree import Command
from batchai_magics.options.option import NameKind, Option, ValueKind

GROUPS = {
    "cluster": "Clusters: the nodes that jobs run on.",
    "cluster node": "The nodes of a cluster.",
    "cluster file": "The files that a cluster's setup task wrote.",
    "file-server": "File servers, which clusters and jobs mount.",
}

_NODES = "Nodes Arguments"
_SETUP = "Setup Task Arguments"
_DISKS = "Storage Disks Arguments"
_CLUSTER = (o.GROUP, o.WORKSPACE, o.named("cluster", NameKind.CLUSTER))
_SERVER = (o.GROUP, o.WORKSPACE, o.named("file server", NameKind.FILE_SERVER))
_SHOWN = (
    o.GROUP,
    o.WORKSPACE,
    o.named("cluster; by default the session's", NameKind.CLUSTER, is_required=False),
)
_OF_CLUSTER = (
    o.GROUP,
    o.WORKSPACE,
    Option(("--cluster", "-c"), "Name of the cluster.", is_required=True, completes=NameKind.CLUSTER),
)
_TARGET = Option(("--target", "-t"), "Number of nodes.", value_kind=ValueKind.NUMBER, section=_NODES)
_MIN = Option(("--min",), "Least number of nodes (auto-scale).", value_kind=ValueKind.NUMBER, section=_NODES)
_MAX = Option(
    ("--max",), "Greatest number of nodes (auto-scale).", value_kind=ValueKind.NUMBER, section=_NODES
)
_CREATE = (
    o.GROUP,
    o.WORKSPACE,
    o.named("cluster", NameKind.NOTHING),
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
        "Whether nodes may be taken away.",
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
    o.named("file server", NameKind.NOTHING),
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

COMMANDS = (
    Command("cluster create", "Create a cluster.", "handlers.cluster:create", _CREATE),
    *usual("cluster", one=_CLUSTER, several=(o.GROUP, o.WORKSPACE), shown=_SHOWN),
    Command(
        "cluster resize",
        "Change a cluster's number of nodes.",
        "handlers.cluster:resize",
        (*_CLUSTER, o.IDS, o.required(_TARGET)),
    ),
    Command(
        "cluster auto-scale",
        "Let a cluster grow and shrink with its queue.",
        "handlers.cluster:auto_scale",
        (*_CLUSTER, o.IDS, o.required(_MIN), o.required(_MAX)),
    ),
    Command(
        "cluster node list", "List the nodes of a cluster.", "handlers.node:list_of_cluster", _OF_CLUSTER
    ),
    Command(
        "cluster node exec",
        "Run a command on a node of a cluster.",
        "handlers.node:execute_on_cluster",
        (*_OF_CLUSTER, *o.NODE_EXEC),
    ),
    Command(
        "cluster node preempt",
        "Take a node of a lowpriority cluster away.",
        "handlers.node:preempt",
        (*_OF_CLUSTER, _NODE),
    ),
    Command(
        "cluster file list",
        "List what a cluster's setup task wrote.",
        "handlers.files:list_of_cluster",
        (*_OF_CLUSTER, o.PATH, o.EXPIRY),
    ),
    Command("file-server create", "Create a file server.", "handlers.file_server:create", _CREATE_SERVER),
    *usual("file-server", one=_SERVER, several=(o.GROUP, o.WORKSPACE)),
)

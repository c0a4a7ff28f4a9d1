"""What tutorials call beside Batch AI: `group`, `provider`, `account`, `role`, `configure`, `login`."""

from __future__ import annotations

from batchai_magics.commands.parsing import arguments as o
from batchai_magics.commands.parsing.tree import Command
from batchai_magics.options.option import NameKind, Option, ValueKind

GROUPS = {
    "group": "Resource groups, which hold workspaces and storage accounts.",
    "provider": "Resource providers.",
    "account": "The subscription.",
    "role": "Roles.",
    "role assignment": "Who may do what.",
}

_NAME = Option(
    ("--name", "-n", "--resource-group", "-g"),
    "Name of the resource group.",
    is_required=True,
    completes=NameKind.GROUP,
)
_TAGS = Option(("--tags",), "Tags, as NAME=VALUE.", value_kind=ValueKind.MANY)
_NAMESPACE = Option(("--namespace", "-n"), "Namespace, such as Microsoft.BatchAI.", is_required=True)
_WAIT = Option(("--wait",), "Accepted.", value_kind=ValueKind.NOTHING)
_CHOSEN = Option(("--name", "--subscription", "-s", "-n"), "Name or id of the subscription.")
_DEFAULTS = Option(
    ("--defaults", "-d"),
    "Defaults, as NAME=VALUE: group, location, workspace, experiment, cluster.",
    value_kind=ValueKind.MANY,
)
_LISTED = Option(("--list-defaults", "-l"), "Show the defaults.", value_kind=ValueKind.NOTHING)
_LOGIN = (
    Option(("--username", "-u"), "Accepted."),
    Option(("--password", "-p"), "Accepted, and forgotten."),
    Option(("--tenant", "-t"), "Accepted."),
    Option(("--service-principal",), "Accepted.", value_kind=ValueKind.NOTHING),
    Option(("--identity",), "Accepted.", value_kind=ValueKind.NOTHING),
    Option(("--use-device-code",), "Accepted.", value_kind=ValueKind.NOTHING),
)
_ASSIGNMENT = (
    Option(("--role",), "Name or id of the role."),
    Option(("--assignee",), "Who it is for."),
    Option(("--scope",), "Id of what it is about."),
    o.GROUP,
)

COMMANDS = (
    Command(
        "group create",
        "Create a resource group.",
        "azure.group:create",
        (_NAME, o.LOCATION, _TAGS),
    ),
    Command("group show", "Show a resource group.", "azure.group:show", (_NAME,)),
    Command("group list", "List resource groups.", "azure.group:list_all", ()),
    Command("group exists", "Say whether a resource group exists.", "azure.group:exists", (_NAME,)),
    Command(
        "group delete",
        "Delete a resource group with all in it.",
        "azure.group:delete",
        (_NAME, o.NO_WAIT, o.YES),
        is_confirmed=True,
    ),
    Command("provider list", "List resource providers.", "azure.session:list_providers", ()),
    Command("provider show", "Show a resource provider.", "azure.session:show_provider", (_NAMESPACE,)),
    Command(
        "provider register",
        "Register a resource provider; there is nothing to do.",
        "azure.session:register_provider",
        (_NAMESPACE, _WAIT),
    ),
    Command("account show", "Show the subscription.", "azure.session:show_account", ()),
    Command("account list", "List subscriptions.", "azure.session:list_accounts", ()),
    Command("account set", "Choose the subscription.", "azure.session:set_account", (_CHOSEN,)),
    Command("account clear", "Forget the login; there is nothing to do.", "azure.session:logout", ()),
    Command("account list-locations", "List locations.", "azure.session:list_locations", ()),
    Command(
        "role assignment create",
        "Grant a role; there is nothing to do.",
        "azure.session:assign_role",
        _ASSIGNMENT,
    ),
    Command("role assignment list", "List the roles granted.", "azure.session:list_roles", _ASSIGNMENT),
    Command(
        "role assignment delete",
        "Take a role back; there is nothing to do.",
        "azure.session:drop_role",
        _ASSIGNMENT,
    ),
    Command("configure", "Set defaults.", "azure.session:configure", (_DEFAULTS, _LISTED)),
    Command("login", "Log in; there is nothing to do.", "azure.session:login", _LOGIN),
    Command("logout", "Log out; there is nothing to do.", "azure.session:logout", ()),
)

"""Command specs of `group`, `provider`, `account`, `role`, `configure`, `login` and `ml`, as in tutorials."""

from __future__ import annotations

from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import CommandSpec
from batchai_magics.options.option import NameKind, Option, ValueKind

GROUPS = {
    "group": "Resource groups, which hold workspaces and storage accounts.",
    "provider": "Resource providers.",
    "account": "The subscription.",
    "role": "Roles.",
    "role assignment": "Who may do what.",
    "ml": "Jobs in the words of Azure Machine Learning.",
    "ml job": "Jobs of all experiments of a workspace.",
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
    Option(("--password", "-p"), "Accepted and ignored."),
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

_ML = (
    o.GROUP,
    Option(
        ("--workspace", "--workspace-name", "-w"),
        "Name of the workspace; by default the configured one.",
        completes=NameKind.WORKSPACE,
    ),
)
_ML_JOB = (*_ML, o.name_option("job", NameKind.JOB))
_MAX_RESULTS = Option(
    ("--max-results", "-r"), "Only the newest jobs, at most this many.", "COUNT", ValueKind.NUMBER, minimum=1
)

COMMANDS = (
    CommandSpec(
        "ml job list",
        "List the jobs of a workspace, newest first.",
        "azure.ml_commands:list_jobs",
        (*_ML, _MAX_RESULTS),
    ),
    CommandSpec("ml job show", "Show a job of any experiment.", "azure.ml_commands:show_job", _ML_JOB),
    CommandSpec(
        "ml job stream",
        "Print a job's log until it has ended.",
        "azure.ml_commands:stream_job",
        _ML_JOB,
    ),
    CommandSpec("ml job cancel", "Cancel a job.", "azure.ml_commands:cancel_job", _ML_JOB),
    CommandSpec(
        "group create",
        "Create a resource group.",
        "azure.session_commands:create_group",
        (_NAME, o.LOCATION, _TAGS),
    ),
    CommandSpec("group show", "Show a resource group.", "azure.session_commands:show_group", (_NAME,)),
    CommandSpec("group list", "List resource groups.", "azure.session_commands:list_groups", ()),
    CommandSpec(
        "group exists",
        "Check whether a resource group exists.",
        "azure.session_commands:group_exists",
        (_NAME,),
    ),
    CommandSpec(
        "group delete",
        "Delete a resource group and everything in it.",
        "azure.session_commands:delete_group",
        (_NAME, o.NO_WAIT, o.YES),
        is_confirmed=True,
    ),
    CommandSpec(
        "provider list",
        "List resource providers.",
        "azure.session_commands:list_providers",
        (),
        is_hidden=True,
    ),
    CommandSpec(
        "provider show",
        "Show a resource provider.",
        "azure.session_commands:show_provider",
        (_NAMESPACE,),
        is_hidden=True,
    ),
    CommandSpec(
        "provider register",
        "Register a resource provider; there is nothing to do.",
        "azure.session_commands:register_provider",
        (_NAMESPACE, _WAIT),
        is_hidden=True,
    ),
    CommandSpec("account show", "Show the subscription.", "azure.session_commands:show_account", ()),
    CommandSpec("account list", "List subscriptions.", "azure.session_commands:list_accounts", ()),
    CommandSpec("account set", "Choose the subscription.", "azure.session_commands:set_account", (_CHOSEN,)),
    CommandSpec(
        "account clear",
        "Forget the login; there is nothing to do.",
        "azure.session_commands:logout",
        (),
        is_hidden=True,
    ),
    CommandSpec("account list-locations", "List locations.", "azure.session_commands:list_locations", ()),
    CommandSpec(
        "role assignment create",
        "Grant a role; there is nothing to do.",
        "azure.session_commands:assign_role",
        _ASSIGNMENT,
        is_hidden=True,
    ),
    CommandSpec(
        "role assignment list",
        "List the roles granted.",
        "azure.session_commands:list_roles",
        _ASSIGNMENT,
        is_hidden=True,
    ),
    CommandSpec(
        "role assignment delete",
        "Revoke a role; there is nothing to do.",
        "azure.session_commands:drop_role",
        _ASSIGNMENT,
        is_hidden=True,
    ),
    CommandSpec("configure", "Set defaults.", "azure.session_commands:configure", (_DEFAULTS, _LISTED)),
    CommandSpec(
        "login", "Log in; there is nothing to do.", "azure.session_commands:login", _LOGIN, is_hidden=True
    ),
    CommandSpec(
        "logout", "Log out; there is nothing to do.", "azure.session_commands:logout", (), is_hidden=True
    ),
)

"""Command specs of `group`, `provider`, `account`, `role`, `configure`, `login` and `ml`, as in tutorials."""

from __future__ import annotations

from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import commands_in
from batchai_magics.options.option import NameKind, Option, ValueKind, switch

_ml = commands_in("azure.ml_commands", "job")
_session = commands_in("azure.session_commands")
_groups = commands_in("azure.session_commands", "group")
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
_WAIT = switch("--wait", help="Accepted.")
_CHOSEN = Option(("--name", "--subscription", "-s", "-n"), "Name or id of the subscription.")
_DEFAULTS = Option(
    ("--defaults", "-d"),
    "Defaults, as NAME=VALUE: group, location, workspace, experiment, cluster.",
    value_kind=ValueKind.MANY,
)
_LISTED = switch("--list-defaults", "-l", help="Show the defaults.")
_LOGIN = (
    Option(("--username", "-u"), "Accepted."),
    Option(("--password", "-p"), "Accepted and ignored."),
    Option(("--tenant", "-t"), "Accepted."),
    switch("--service-principal", help="Accepted."),
    switch("--identity", help="Accepted."),
    switch("--use-device-code", help="Accepted."),
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
    _ml(
        "ml job list",
        "List the jobs of a workspace, newest first.",
        (*_ML, _MAX_RESULTS),
        function="list_jobs",
    ),
    _ml("ml job show", "Show a job of any experiment.", _ML_JOB),
    _ml("ml job stream", "Print a job's log until it has ended.", _ML_JOB),
    _ml("ml job cancel", "Cancel a job.", _ML_JOB),
    _groups("group create", "Create a resource group.", (_NAME, o.LOCATION, _TAGS)),
    _groups("group show", "Show a resource group.", (_NAME,)),
    _session("group list", "List resource groups.", function="list_groups"),
    _session("group exists", "Check whether a resource group exists.", (_NAME,), function="group_exists"),
    _groups(
        "group delete",
        "Delete a resource group and everything in it.",
        (_NAME, o.NO_WAIT, o.YES),
        is_confirmed=True,
    ),
    _session("provider list", "List resource providers.", function="list_providers", is_hidden=True),
    _session(
        "provider show", "Show a resource provider.", (_NAMESPACE,), function="show_provider", is_hidden=True
    ),
    _session(
        "provider register",
        "Register a resource provider; there is nothing to do.",
        (_NAMESPACE, _WAIT),
        function="register_provider",
        is_hidden=True,
    ),
    _session("account show", "Show the subscription.", function="show_account"),
    _session("account list", "List subscriptions.", function="list_accounts"),
    _session("account set", "Choose the subscription.", (_CHOSEN,), function="set_account"),
    _session("account list-locations", "List locations.", function="list_locations"),
    _session("account clear", "Forget the login; there is nothing to do.", function="logout", is_hidden=True),
    _session(
        "role assignment create",
        "Grant a role; there is nothing to do.",
        _ASSIGNMENT,
        function="assign_role",
        is_hidden=True,
    ),
    _session(
        "role assignment list", "List the roles granted.", _ASSIGNMENT, function="list_roles", is_hidden=True
    ),
    _session(
        "role assignment delete",
        "Revoke a role; there is nothing to do.",
        _ASSIGNMENT,
        function="drop_role",
        is_hidden=True,
    ),
    _session("configure", "Set defaults.", (_DEFAULTS, _LISTED)),
    _session("login", "Log in; there is nothing to do.", _LOGIN, is_hidden=True),
    _session("logout", "Log out; there is nothing to do.", is_hidden=True),
)

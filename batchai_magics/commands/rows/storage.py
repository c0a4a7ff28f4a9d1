"""`storage …`: accounts, file shares and their folders, blob containers."""

from __future__ import annotations

from batchai_magics.commands import options as o
from batchai_magics.commands.rows.kinds import container, share, text
from batchai_magics.commands.tree import Command, Live, Option, Takes

GROUPS = {
    "storage": "Storage: accounts, file shares, blob containers.",
    "storage account": "Storage accounts.",
    "storage account keys": "The keys of a storage account.",
    "storage share": "File shares.",
    "storage directory": "Folders of a file share.",
    "storage file": "Files of a file share.",
    "storage container": "Blob containers.",
    "storage blob": "Blobs of a container.",
}

_ACCOUNT = Option(("--name", "-n"), "Name of the account.", is_required=True, completes=Live.ACCOUNT)
_KEYED = Option(("--account-name", "-n"), "Name of the account.", is_required=True, completes=Live.ACCOUNT)
_CREATE_ACCOUNT = (
    o.GROUP,
    Option(("--name", "-n"), "Name of the account.", is_required=True),
    o.LOCATION,
    text(("--sku",), "Kind of redundancy, such as Standard_LRS."),
    text(("--kind",), "Accepted."),
    text(("--access-tier",), "Accepted."),
    text(("--https-only",), "Accepted."),
    Option(("--tags",), "Accepted.", takes=Takes.SOME),
)
_OF_SHARE = share("--share-name", "-s")
_FOLDER = text(("--name", "-n"), "Path of the folder.", is_required=True)
_SHARE_NAME = share("--name", "-n")
_CONTAINER_NAME = container("--name", "-n")

_ACCOUNTS = (
    Command("storage account create", "Create a storage account.", "azure.account:create", _CREATE_ACCOUNT),
    Command("storage account show", "Show a storage account.", "azure.account:show", (o.GROUP, _ACCOUNT)),
    Command("storage account list", "List storage accounts.", "azure.account:list_all", (o.GROUP,)),
    Command(
        "storage account check-name",
        "Say whether a name is free for an account.",
        "azure.account:check",
        (_ACCOUNT,),
    ),
    Command(
        "storage account delete",
        "Delete a storage account with all in it.",
        "azure.account:delete",
        (o.GROUP, _ACCOUNT, o.YES),
        is_confirmed=True,
    ),
    Command(
        "storage account show-connection-string",
        "Show what programs connect to an account with.",
        "azure.account:connection_string",
        (o.GROUP, _ACCOUNT),
    ),
    Command(
        "storage account keys list", "List the keys of an account.", "azure.account:keys", (o.GROUP, _KEYED)
    ),
    Command(
        "storage account keys renew",
        "Make a new key of an account.",
        "azure.account:renew",
        (
            o.GROUP,
            _KEYED,
            Option(
                ("--key",),
                "Which key.",
                choices=("primary", "secondary", "key1", "key2"),
                is_required=True,
            ),
        ),
    ),
)
_SHARES = (
    Command(
        "storage share create",
        "Create a file share.",
        "azure.share:create",
        (
            text(("--name", "-n"), "Name of the share.", is_required=True),
            *o.ACCESS,
            text(("--quota",), "Accepted."),
        ),
    ),
    Command("storage share list", "List file shares.", "azure.share:list_all", o.ACCESS),
    Command(
        "storage share exists", "Say whether a share exists.", "azure.share:exists", (_SHARE_NAME, *o.ACCESS)
    ),
    Command(
        "storage share delete",
        "Delete a share with all in it.",
        "azure.share:delete",
        (_SHARE_NAME, *o.ACCESS),
    ),
    Command(
        "storage directory create",
        "Create a folder on a share.",
        "azure.share:create_folder",
        (_FOLDER, _OF_SHARE, *o.ACCESS),
    ),
    Command(
        "storage directory list",
        "List the folders of a folder.",
        "azure.share:list_folders",
        (_OF_SHARE, text(("--name", "-n"), "Path of the folder."), *o.ACCESS),
    ),
    Command(
        "storage directory exists",
        "Say whether a folder exists.",
        "azure.share:folder_exists",
        (_FOLDER, _OF_SHARE, *o.ACCESS),
    ),
    Command(
        "storage directory delete",
        "Delete a folder with all in it.",
        "azure.share:delete_folder",
        (_FOLDER, _OF_SHARE, *o.ACCESS),
    ),
)
_CONTAINERS = (
    Command(
        "storage container create",
        "Create a blob container.",
        "azure.container:create",
        (
            text(("--name", "-n"), "Name of the container.", is_required=True),
            *o.ACCESS,
            text(("--public-access",), "Accepted."),
        ),
    ),
    Command("storage container list", "List blob containers.", "azure.container:list_all", o.ACCESS),
    Command(
        "storage container exists",
        "Say whether a container exists.",
        "azure.container:exists",
        (_CONTAINER_NAME, *o.ACCESS),
    ),
    Command(
        "storage container delete",
        "Delete a container with all in it.",
        "azure.container:delete",
        (_CONTAINER_NAME, *o.ACCESS),
    ),
)
COMMANDS = (*_ACCOUNTS, *_SHARES, *_CONTAINERS)

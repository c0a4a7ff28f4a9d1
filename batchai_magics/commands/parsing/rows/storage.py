"""`storage …`: accounts, file shares and their folders, blob containers."""

from __future__ import annotations

from batchai_magics.commands.parsing import arguments as o
from batchai_magics.commands.parsing.arguments import container, share, text
from batchai_magics.commands.parsing.tree import Command
from batchai_magics.options.option import NameKind, Option, ValueKind

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

_ACCOUNT = Option(("--name", "-n"), "Name of the account.", is_required=True, completes=NameKind.ACCOUNT)
_KEYED = Option(
    ("--account-name", "-n"), "Name of the account.", is_required=True, completes=NameKind.ACCOUNT
)
_CREATE_ACCOUNT = (
    o.GROUP,
    Option(("--name", "-n"), "Name of the account.", is_required=True),
    o.LOCATION,
    text(("--sku",), "Kind of redundancy, such as Standard_LRS."),
    text(("--kind",), "Accepted."),
    text(("--access-tier",), "Accepted."),
    text(("--https-only",), "Accepted."),
    Option(("--tags",), "Accepted.", value_kind=ValueKind.MANY),
)
_OF_SHARE = share("--share-name", "-s")
_FOLDER = text(("--name", "-n"), "Path of the folder.", is_required=True)
_SHARE_NAME = share("--name", "-n")
_CONTAINER_NAME = container("--name", "-n")


def _bucket(word: str, noun: str, name: Option, accepted: str) -> tuple[Command, ...]:
    """What shares and containers have in common; `accepted` is an option of `create` that does nothing."""
    words, module = f"storage {word}", f"azure.{word}"
    new = text(("--name", "-n"), f"Name of the {word}.", is_required=True)
    making, one = (new, *o.ACCESS, text((accepted,), "Accepted.")), (name, *o.ACCESS)
    return (
        Command(f"{words} create", f"Create a {noun}.", f"{module}:create", making),
        Command(f"{words} list", f"List {noun}s.", f"{module}:list_all", o.ACCESS),
        Command(f"{words} exists", f"Say whether a {word} exists.", f"{module}:exists", one),
        Command(f"{words} delete", f"Delete a {word} with all in it.", f"{module}:delete", one),
    )


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
    *_bucket("share", "file share", _SHARE_NAME, "--quota"),
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
_CONTAINERS = _bucket("container", "blob container", _CONTAINER_NAME, "--public-access")
COMMANDS = (*_ACCOUNTS, *_SHARES, *_CONTAINERS)

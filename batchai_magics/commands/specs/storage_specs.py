"""Command specs of `storage …`: accounts, file shares and blob containers with their files."""

from __future__ import annotations

from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import (
    BucketKind,
    CommandSpec,
    container_option,
    path_option,
    share_option,
)
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
    Option(("--sku",), "Kind of redundancy, such as Standard_LRS."),
    Option(("--kind",), "Accepted."),
    Option(("--access-tier",), "Accepted."),
    Option(("--https-only",), "Accepted."),
    Option(("--tags",), "Accepted.", value_kind=ValueKind.MANY),
)
_OF_SHARE = share_option("--share-name", "-s")
_FOLDER = Option(("--name", "-n"), "Path of the folder.", is_required=True)
_SHARE_NAME = share_option("--name", "-n")
_CONTAINER_NAME = container_option("--name", "-n")


def _bucket_commands(kind: BucketKind, *, title: str, name: Option, ignored: str) -> tuple[CommandSpec, ...]:
    """The commands that shares and containers share; `ignored` is an option of `create` without effect."""
    noun, module = kind.value, "azure.storage_commands"
    words = f"storage {noun}"
    new = Option(("--name", "-n"), f"Name of the {noun}.", is_required=True)
    creating, one = (new, *o.ACCESS, Option((ignored,), "Accepted.")), (name, *o.ACCESS)
    return (
        CommandSpec(f"{words} create", f"Create a {title}.", f"{module}:create_bucket", creating, kind=kind),
        CommandSpec(f"{words} list", f"List {title}s.", f"{module}:list_buckets", o.ACCESS, kind=kind),
        CommandSpec(
            f"{words} exists", f"Say whether a {noun} exists.", f"{module}:bucket_exists", one, kind=kind
        ),
        CommandSpec(
            f"{words} delete", f"Delete a {noun} with all in it.", f"{module}:delete_bucket", one, kind=kind
        ),
    )


_ACCOUNTS = (
    CommandSpec(
        "storage account create",
        "Create a storage account.",
        "azure.storage_commands:create_account",
        _CREATE_ACCOUNT,
    ),
    CommandSpec(
        "storage account show",
        "Show a storage account.",
        "azure.storage_commands:show_account",
        (o.GROUP, _ACCOUNT),
    ),
    CommandSpec(
        "storage account list",
        "List storage accounts.",
        "azure.storage_commands:list_accounts",
        (o.GROUP,),
    ),
    CommandSpec(
        "storage account check-name",
        "Say whether a name is free for an account.",
        "azure.storage_commands:check_account_name",
        (_ACCOUNT,),
    ),
    CommandSpec(
        "storage account delete",
        "Delete a storage account with all in it.",
        "azure.storage_commands:delete_account",
        (o.GROUP, _ACCOUNT, o.YES),
        is_confirmed=True,
    ),
    CommandSpec(
        "storage account show-connection-string",
        "Show what programs connect to an account with.",
        "azure.storage_commands:connection_string",
        (o.GROUP, _ACCOUNT),
    ),
    CommandSpec(
        "storage account keys list",
        "List the keys of an account.",
        "azure.storage_commands:account_keys",
        (o.GROUP, _KEYED),
    ),
    CommandSpec(
        "storage account keys renew",
        "Make a new key of an account.",
        "azure.storage_commands:renew_account_key",
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
    *_bucket_commands(BucketKind.SHARE, title="file share", name=_SHARE_NAME, ignored="--quota"),
    CommandSpec(
        "storage directory create",
        "Create a folder on a share.",
        "azure.storage_commands:create_folder",
        (_FOLDER, _OF_SHARE, *o.ACCESS),
    ),
    CommandSpec(
        "storage directory list",
        "List the folders of a folder.",
        "azure.storage_commands:list_folders",
        (_OF_SHARE, Option(("--name", "-n"), "Path of the folder."), *o.ACCESS),
    ),
    CommandSpec(
        "storage directory exists",
        "Say whether a folder exists.",
        "azure.storage_commands:folder_exists",
        (_FOLDER, _OF_SHARE, *o.ACCESS),
    ),
    CommandSpec(
        "storage directory delete",
        "Delete a folder with all in it.",
        "azure.storage_commands:delete_folder",
        (_FOLDER, _OF_SHARE, *o.ACCESS),
    ),
)
_CONTAINERS = _bucket_commands(
    BucketKind.CONTAINER,
    title="blob container",
    name=_CONTAINER_NAME,
    ignored="--public-access",
)


_PATTERN = Option(("--pattern",), "Only files whose path fits, such as *.json.")
_DRY = Option(("--dryrun",), "Show what would be done; nothing is written.", value_kind=ValueKind.NOTHING)
_QUIET = Option(("--no-progress",), "Show no progress bar.", value_kind=ValueKind.NOTHING)
_OVERWRITE = Option(("--overwrite",), "Accepted; what is there is replaced.", value_kind=ValueKind.NOTHING)
_OF_CONTAINER = container_option("--container-name", "-c")
_FILE = Option(("--path", "-p"), "Path of the file on the share.", is_required=True)
_BLOB = Option(("--name", "-n"), "Name of the blob.", is_required=True)


def _item_commands(
    kind: BucketKind, noun: str, named: tuple[Option, Option], source: Option
) -> tuple[CommandSpec, ...]:
    """The commands that files and blobs share; `named` are the options that name the bucket and the item."""
    words, module = f"storage {noun}", "azure.storage_commands"
    one, several = (*named, *o.ACCESS), (source, _PATTERN, _DRY, _QUIET, *o.ACCESS)
    batch = f"Delete {noun}s of a {kind.value}."
    return (
        CommandSpec(f"{words} show", f"Show a {noun}.", f"{module}:show", one, kind=kind),
        CommandSpec(f"{words} exists", f"Say whether a {noun} exists.", f"{module}:exists", one, kind=kind),
        CommandSpec(f"{words} delete-batch", batch, f"{module}:delete_batch", several, kind=kind),
        CommandSpec(f"{words} delete", f"Delete a {noun}.", f"{module}:delete", one, kind=kind),
    )


_FILES = (
    CommandSpec(
        "storage file upload",
        "Upload a file to a share.",
        "azure.storage_commands:upload_file",
        (
            _OF_SHARE,
            path_option(("--source",), "File to upload."),
            Option(("--path", "-p"), "Folder or path on the share."),
            _QUIET,
            *o.ACCESS,
        ),
    ),
    CommandSpec(
        "storage file upload-batch",
        "Upload a folder to a share.",
        "azure.storage_commands:upload_batch",
        (
            share_option("--destination", "-d"),
            path_option(("--source", "-s"), "Folder to upload."),
            Option(("--destination-path",), "Folder on the share."),
            _PATTERN,
            _DRY,
            _QUIET,
            *o.ACCESS,
        ),
        kind=BucketKind.SHARE,
    ),
    CommandSpec(
        "storage file download",
        "Download a file from a share.",
        "azure.storage_commands:download",
        (
            _OF_SHARE,
            _FILE,
            path_option(
                ("--dest",), "File or folder to write; the working folder by default.", is_required=False
            ),
            _QUIET,
            *o.ACCESS,
        ),
        kind=BucketKind.SHARE,
    ),
    CommandSpec(
        "storage file download-batch",
        "Download a share, or a part of it.",
        "azure.storage_commands:download_batch",
        (
            share_option("--source", "-s"),
            path_option(("--destination", "-d"), "Folder to write to."),
            Option(("--source-path",), "Folder on the share."),
            _PATTERN,
            _DRY,
            _QUIET,
            *o.ACCESS,
        ),
        kind=BucketKind.SHARE,
    ),
    CommandSpec(
        "storage file list",
        "List files and folders of a share.",
        "azure.storage_commands:list_files",
        (_OF_SHARE, Option(("--path", "-p"), "Folder on the share."), *o.ACCESS),
    ),
    *_item_commands(BucketKind.SHARE, "file", (_OF_SHARE, _FILE), share_option("--source", "-s")),
)
_BLOBS = (
    CommandSpec(
        "storage blob upload",
        "Upload a file as a blob.",
        "azure.storage_commands:upload_blob",
        (
            _OF_CONTAINER,
            path_option(("--file", "-f"), "File to upload."),
            Option(("--name", "-n"), "Name of the blob; the file's by default."),
            _OVERWRITE,
            _QUIET,
            *o.ACCESS,
        ),
    ),
    CommandSpec(
        "storage blob upload-batch",
        "Upload a folder to a container.",
        "azure.storage_commands:upload_batch",
        (
            container_option("--destination", "-d"),
            path_option(("--source", "-s"), "Folder to upload."),
            Option(("--destination-path",), "What the blobs' names begin with."),
            _PATTERN,
            _OVERWRITE,
            _DRY,
            _QUIET,
            *o.ACCESS,
        ),
        kind=BucketKind.CONTAINER,
    ),
    CommandSpec(
        "storage blob download",
        "Download a blob.",
        "azure.storage_commands:download",
        (
            _OF_CONTAINER,
            _BLOB,
            path_option(
                ("--file", "-f"), "File or folder to write; the working folder by default.", is_required=False
            ),
            _QUIET,
            *o.ACCESS,
        ),
        kind=BucketKind.CONTAINER,
    ),
    CommandSpec(
        "storage blob download-batch",
        "Download a container, or a part of it.",
        "azure.storage_commands:download_batch",
        (
            container_option("--source", "-s"),
            path_option(("--destination", "-d"), "Folder to write to."),
            _PATTERN,
            _DRY,
            _QUIET,
            *o.ACCESS,
        ),
        kind=BucketKind.CONTAINER,
    ),
    CommandSpec(
        "storage blob list",
        "List the blobs of a container.",
        "azure.storage_commands:list_blobs",
        (_OF_CONTAINER, Option(("--prefix",), "Only blobs whose name begins so."), *o.ACCESS),
    ),
    *_item_commands(BucketKind.CONTAINER, "blob", (_OF_CONTAINER, _BLOB), container_option("--source", "-s")),
)

COMMANDS = (*_ACCOUNTS, *_SHARES, *_CONTAINERS, *_FILES, *_BLOBS)

"""Command specs of `storage …`: accounts, file shares and blob containers with their files."""

from __future__ import annotations

from functools import partial

from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.shared_options import (
    BucketKind,
    CommandSpec,
    commands_in,
    container_option,
    path_option,
    share_option,
)
from batchai_magics.options.option import NameKind, Option, ValueKind, switch

_storage = commands_in("azure.storage_commands")
_accounts = commands_in("azure.storage_commands", "account")
_folders = commands_in("azure.storage_commands", "folder")
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
_KEY = Option(("--key",), "Which key.", choices=("primary", "secondary", "key1", "key2"), is_required=True)
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
    noun, words = kind.value, f"storage {kind.value}"
    new = Option(("--name", "-n"), f"Name of the {noun}.", is_required=True)
    creating, one = (new, *o.ACCESS, Option((ignored,), "Accepted.")), (name, *o.ACCESS)
    make = partial(commands_in("azure.storage_commands", "bucket"), kind=kind)
    return (
        make(f"{words} create", f"Create a {title}.", creating),
        make(f"{words} list", f"List {title}s.", o.ACCESS, function="list_buckets"),
        make(f"{words} exists", f"Say whether a {noun} exists.", one, function="bucket_exists"),
        make(f"{words} delete", f"Delete a {noun} with all in it.", one),
    )


_ACCOUNTS = (
    _accounts("storage account create", "Create a storage account.", _CREATE_ACCOUNT),
    _accounts("storage account show", "Show a storage account.", (o.GROUP, _ACCOUNT)),
    _accounts("storage account list", "List storage accounts.", (o.GROUP,), function="list_accounts"),
    _accounts(
        "storage account check-name",
        "Say whether a name is free for an account.",
        (_ACCOUNT,),
        function="check_account_name",
    ),
    _accounts(
        "storage account delete",
        "Delete a storage account with all in it.",
        (o.GROUP, _ACCOUNT, o.YES),
        is_confirmed=True,
    ),
    _accounts(
        "storage account show-connection-string",
        "Show what programs connect to an account with.",
        (o.GROUP, _ACCOUNT),
        function="connection_string",
    ),
    _accounts(
        "storage account keys list",
        "List the keys of an account.",
        (o.GROUP, _KEYED),
        function="account_keys",
    ),
    _accounts(
        "storage account keys renew",
        "Make a new key of an account.",
        (o.GROUP, _KEYED, _KEY),
        function="renew_account_key",
    ),
)
_IN_SHARE = (_FOLDER, _OF_SHARE, *o.ACCESS)
_SHARES = (
    *_bucket_commands(BucketKind.SHARE, title="file share", name=_SHARE_NAME, ignored="--quota"),
    _folders("storage directory create", "Create a folder on a share.", _IN_SHARE),
    _folders(
        "storage directory list",
        "List the folders of a folder.",
        (_OF_SHARE, Option(("--name", "-n"), "Path of the folder."), *o.ACCESS),
        function="list_folders",
    ),
    _folders("storage directory exists", "Say whether a folder exists.", _IN_SHARE, function="folder_exists"),
    _folders("storage directory delete", "Delete a folder with all in it.", _IN_SHARE),
)
_CONTAINERS = _bucket_commands(
    BucketKind.CONTAINER,
    title="blob container",
    name=_CONTAINER_NAME,
    ignored="--public-access",
)


_PATTERN = Option(("--pattern",), "Only files whose path fits, such as *.json.")
_DRY = switch("--dryrun", help="Show what would be done; nothing is written.")
_QUIET = switch("--no-progress", help="Show no progress bar.")
_OVERWRITE = switch("--overwrite", help="Accepted; what is there is replaced.")
_BATCH = (_PATTERN, _DRY, _QUIET, *o.ACCESS)
_OF_CONTAINER = container_option("--container-name", "-c")
_FILE = Option(("--path", "-p"), "Path of the file on the share.", is_required=True)
_BLOB = Option(("--name", "-n"), "Name of the blob.", is_required=True)


def _item_commands(
    kind: BucketKind, noun: str, named: tuple[Option, Option], target: tuple[str, ...], *more: Option
) -> tuple[CommandSpec, ...]:
    """The commands that files and blobs share.

    `named` are the options that name the bucket and the item, `target` the flags for a download's target,
    `more` further options for the upload of a folder.
    """
    words, one, make = f"storage {noun}", (*named, *o.ACCESS), partial(_storage, kind=kind)
    bucket_option = share_option if kind is BucketKind.SHARE else container_option
    to = path_option(target, "File or folder to write; the working folder by default.", is_required=False)
    upload = (
        bucket_option("--destination", "-d"),
        path_option(("--source", "-s"), "Folder to upload."),
        Option(("--destination-path",), f"Folder in the {kind.value}."),
    )
    download = (
        bucket_option("--source", "-s"),
        path_option(("--destination", "-d"), "Folder to write to."),
        Option(("--source-path",), f"Folder in the {kind.value}."),
    )
    return (
        make(f"{words} upload-batch", f"Upload a folder to a {kind.value}.", (*upload, *more, *_BATCH)),
        make(f"{words} download", f"Download a {noun}.", (*named, to, _QUIET, *o.ACCESS)),
        make(f"{words} download-batch", f"Download a {kind.value}, or a part of it.", (*download, *_BATCH)),
        make(f"{words} show", f"Show a {noun}.", one),
        make(f"{words} exists", f"Say whether a {noun} exists.", one),
        make(f"{words} delete", f"Delete a {noun}.", one),
        make(f"{words} delete-batch", f"Delete {noun}s of a {kind.value}.", (download[0], *_BATCH)),
    )


_FILES = (
    _storage(
        "storage file upload",
        "Upload a file to a share.",
        (
            _OF_SHARE,
            path_option(("--source",), "File to upload."),
            Option(("--path", "-p"), "Folder or path on the share."),
            _QUIET,
            *o.ACCESS,
        ),
        function="upload_file",
    ),
    _storage(
        "storage file list",
        "List files and folders of a share.",
        (_OF_SHARE, Option(("--path", "-p"), "Folder on the share."), *o.ACCESS),
        function="list_files",
    ),
    *_item_commands(BucketKind.SHARE, "file", (_OF_SHARE, _FILE), ("--dest",)),
)
_BLOBS = (
    _storage(
        "storage blob upload",
        "Upload a file as a blob.",
        (
            _OF_CONTAINER,
            path_option(("--file", "-f"), "File to upload."),
            Option(("--name", "-n"), "Name of the blob; the file's by default."),
            _OVERWRITE,
            _QUIET,
            *o.ACCESS,
        ),
        function="upload_blob",
    ),
    _storage(
        "storage blob list",
        "List the blobs of a container.",
        (_OF_CONTAINER, Option(("--prefix",), "Only blobs whose name begins so."), *o.ACCESS),
        function="list_blobs",
    ),
    *_item_commands(BucketKind.CONTAINER, "blob", (_OF_CONTAINER, _BLOB), ("--file", "-f"), _OVERWRITE),
)

COMMANDS = (*_ACCOUNTS, *_SHARES, *_CONTAINERS, *_FILES, *_BLOBS)

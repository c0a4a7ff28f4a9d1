"""`storage file …` and `storage blob …`."""

from __future__ import annotations

from batchai_magics.commands.parsing import arguments as o
from batchai_magics.commands.parsing.arguments import container, here, share, text
from batchai_magics.commands.parsing.tree import Command
from batchai_magics.options.option import Option, ValueKind

_PATTERN = Option(("--pattern",), "Only files whose path fits, such as *.json.")
_DRY = Option(("--dryrun",), "Show what would be done; nothing is written.", value_kind=ValueKind.NOTHING)
_QUIET = Option(("--no-progress",), "Show no progress bar.", value_kind=ValueKind.NOTHING)
_OVERWRITE = Option(("--overwrite",), "Accepted; what is there is replaced.", value_kind=ValueKind.NOTHING)
_OF_SHARE = share("--share-name", "-s")
_OF_CONTAINER = container("--container-name", "-c")
_FILE = text(("--path", "-p"), "Path of the file on the share.", is_required=True)
_BLOB = text(("--name", "-n"), "Name of the blob.", is_required=True)

_FILES = (
    Command(
        "storage file upload",
        "Upload a file to a share.",
        "azure.file:upload",
        (
            _OF_SHARE,
            here(("--source",), "File to upload."),
            text(("--path", "-p"), "Folder or path on the share."),
            _QUIET,
            *o.ACCESS,
        ),
    ),
    Command(
        "storage file upload-batch",
        "Upload a folder to a share.",
        "azure.file:upload_batch",
        (
            share("--destination", "-d"),
            here(("--source", "-s"), "Folder to upload."),
            text(("--destination-path",), "Folder on the share."),
            _PATTERN,
            _DRY,
            _QUIET,
            *o.ACCESS,
        ),
    ),
    Command(
        "storage file download",
        "Download a file from a share.",
        "azure.file:download",
        (
            _OF_SHARE,
            _FILE,
            here(("--dest",), "File or folder to write; the working folder by default.", is_required=False),
            _QUIET,
            *o.ACCESS,
        ),
    ),
    Command(
        "storage file download-batch",
        "Download a share, or a part of it.",
        "azure.file:download_batch",
        (
            share("--source", "-s"),
            here(("--destination", "-d"), "Folder to write to."),
            text(("--source-path",), "Folder on the share."),
            _PATTERN,
            _DRY,
            _QUIET,
            *o.ACCESS,
        ),
    ),
    Command(
        "storage file list",
        "List files and folders of a share.",
        "azure.file:list_all",
        (_OF_SHARE, text(("--path", "-p"), "Folder on the share."), *o.ACCESS),
    ),
    Command("storage file show", "Show a file.", "azure.file:show", (_OF_SHARE, _FILE, *o.ACCESS)),
    Command(
        "storage file exists",
        "Say whether a file exists.",
        "azure.file:exists",
        (_OF_SHARE, _FILE, *o.ACCESS),
    ),
    Command(
        "storage file delete-batch",
        "Delete files of a share.",
        "azure.file:delete_batch",
        (share("--source", "-s"), _PATTERN, _DRY, _QUIET, *o.ACCESS),
    ),
    Command("storage file delete", "Delete a file.", "azure.file:delete", (_OF_SHARE, _FILE, *o.ACCESS)),
)
_BLOBS = (
    Command(
        "storage blob upload",
        "Upload a file as a blob.",
        "azure.blob:upload",
        (
            _OF_CONTAINER,
            here(("--file", "-f"), "File to upload."),
            text(("--name", "-n"), "Name of the blob; the file's by default."),
            _OVERWRITE,
            _QUIET,
            *o.ACCESS,
        ),
    ),
    Command(
        "storage blob upload-batch",
        "Upload a folder to a container.",
        "azure.blob:upload_batch",
        (
            container("--destination", "-d"),
            here(("--source", "-s"), "Folder to upload."),
            text(("--destination-path",), "What the blobs' names begin with."),
            _PATTERN,
            _OVERWRITE,
            _DRY,
            _QUIET,
            *o.ACCESS,
        ),
    ),
    Command(
        "storage blob download",
        "Download a blob.",
        "azure.blob:download",
        (
            _OF_CONTAINER,
            _BLOB,
            here(
                ("--file", "-f"), "File or folder to write; the working folder by default.", is_required=False
            ),
            _QUIET,
            *o.ACCESS,
        ),
    ),
    Command(
        "storage blob download-batch",
        "Download a container, or a part of it.",
        "azure.blob:download_batch",
        (
            container("--source", "-s"),
            here(("--destination", "-d"), "Folder to write to."),
            _PATTERN,
            _DRY,
            _QUIET,
            *o.ACCESS,
        ),
    ),
    Command(
        "storage blob list",
        "List the blobs of a container.",
        "azure.blob:list_all",
        (_OF_CONTAINER, text(("--prefix",), "Only blobs whose name begins so."), *o.ACCESS),
    ),
    Command("storage blob show", "Show a blob.", "azure.blob:show", (_OF_CONTAINER, _BLOB, *o.ACCESS)),
    Command(
        "storage blob exists",
        "Say whether a blob exists.",
        "azure.blob:exists",
        (_OF_CONTAINER, _BLOB, *o.ACCESS),
    ),
    Command(
        "storage blob delete-batch",
        "Delete blobs of a container.",
        "azure.blob:delete_batch",
        (container("--source", "-s"), _PATTERN, _DRY, _QUIET, *o.ACCESS),
    ),
    Command("storage blob delete", "Delete a blob.", "azure.blob:delete", (_OF_CONTAINER, _BLOB, *o.ACCESS)),
)

COMMANDS = (*_FILES, *_BLOBS)

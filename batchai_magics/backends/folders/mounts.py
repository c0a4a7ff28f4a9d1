"""Mounts: a link for each share, container or server of a description, and the resolution of paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from batchai_magics.backends.base import api_errors
from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import Problem, SpecError
from batchai_magics.models.job_execution import RUN_FOLDERS
from batchai_magics.models.resource_ids import ResourceId

if TYPE_CHECKING:  # supervisors do without the models
    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.mount_volumes import Mount, MountVolumes, UnmanagedFileSystem

DEFAULT_SHARE = "batchaishare"
DEFAULT_MOUNT = "autoafs"  # where Batch AI mounted the share that it created automatically
DEFAULT_CONTAINER = "batchaicontainer"
CONTAINER_MOUNT = "autobfs"

# A path below the folder of a variable.
_ON_MOUNT = re.compile(r"\$(?:(?P<bare>\w+)|\{(?P<braced>\w+)\})/(?P<rest>.*)", re.DOTALL)
# A folder on the node itself: relative, or below one of these variables; `rest` is its path there.
_FOLDERS = r"AZ_BATCHAI_(?:(?:JOB_)?MOUNT_ROOT|(?:SHARED_)?JOB_TEMP|JOB_TEMP_DIR)"
_NODES_OWN = re.compile(rf"(?:\$(?:{_FOLDERS}|\{{{_FOLDERS}\}})(?:/+|$))?(?P<rest>[^$/][^$]*)?")


def _unmanaged(volumes: MountVolumes | None) -> Sequence[UnmanagedFileSystem]:
    return (volumes.unmanaged_file_systems if volumes else None) or ()


def _folder(layout: Layout, mount: Mount) -> Path | None:
    from batchai_magics.models.mount_volumes import AzureBlobFileSystem, AzureFileShare, FileServerMount

    if isinstance(mount, AzureFileShare):
        address = urlsplit(mount.azure_file_url)
        account = mount.account_name or address.netloc.partition(".")[0] or DEFAULT_ACCOUNT
        return layout.share(account, address.path.strip("/") or DEFAULT_SHARE)
    if isinstance(mount, AzureBlobFileSystem):
        return layout.container(mount.account_name, mount.container_name)
    if isinstance(mount, FileServerMount):
        folder = layout.file_server(ResourceId.parse(mount.file_server.id))
        return folder / (mount.source_directory or "").strip("/").removeprefix("data").strip("/")
    return None


def with_default(layout: Layout, volumes: MountVolumes | None) -> dict[str, Path]:
    """The folder behind each relative mount path; unmanaged file systems have none.

    The default share and container are at their default paths, unless these are in use.
    """
    defaults = {
        DEFAULT_MOUNT: layout.share(DEFAULT_ACCOUNT, DEFAULT_SHARE),
        CONTAINER_MOUNT: layout.container(DEFAULT_ACCOUNT, DEFAULT_CONTAINER),
    }
    reserved = {mount.relative_mount_path.strip("/").partition("/")[0] for mount in _unmanaged(volumes)}
    folders = {relative: folder for relative, folder in defaults.items() if relative not in reserved}
    for mount in volumes.all if volumes else ():
        if folder := _folder(layout, mount):
            folders[mount.relative_mount_path] = folder
    return folders


def link(layout: Layout, root: Path, volumes: MountVolumes | None) -> None:
    """Creates the links below `root`, and the folders that they lead to."""
    for relative, target in with_default(layout, volumes).items():
        private_files.make_folder(target)
        private_files.make_link(root / relative, target)


def setup_logs(layout: Layout, spec: ClusterSpec) -> Path | None:
    """The output folder of a cluster's setup task, if it has one; SpecError if it is not on a mount."""
    setup = spec.node_setup
    task = setup.setup_task if setup else None
    if not (setup and task):
        return None
    roots = {"AZ_BATCHAI_MOUNT_ROOT": with_default(layout, setup.mount_volumes)}
    path = "properties.nodeSetup.setupTask.stdOutErrPathPrefix"
    base = resolve(task.std_out_err_path_prefix, roots, field=path, what=spec.what)
    return base / (task.std_out_err_path_suffix or "")


def output_root(layout: Layout, spec: JobSpec, cluster: ClusterSpec, guid: str) -> Path:
    """The folder of the job's stdOutErrPathPrefix.

    A path that is not on a mount was on the service's node, and deleted with it: here it is among the job's
    own files. Raises SpecError for a path on an unmanaged file system or an unknown one.
    """
    path = spec.std_out_err_path_prefix
    try:
        return resolve(path, _targets_by_root(layout, spec, cluster))
    except SpecError:
        match = _NODES_OWN.fullmatch(path)
        rest = (match["rest"] or "") if match else ".."
        if ".." in Path(rest).parts or _is_unmanaged(path, spec, cluster):
            raise
        return layout.job(guid).unmounted / rest


def _is_unmanaged(path: str, spec: JobSpec, cluster: ClusterSpec) -> bool:
    """Whether the path is on an unmanaged file system."""
    match = _ON_MOUNT.fullmatch(path)
    if match is None:
        return False
    setup = cluster.node_setup.mount_volumes if cluster.node_setup else None
    volumes = {"AZ_BATCHAI_MOUNT_ROOT": setup, "AZ_BATCHAI_JOB_MOUNT_ROOT": spec.mount_volumes}
    mounted = _unmanaged(volumes.get(match["bare"] or match["braced"]))
    prefixes = tuple(f"{mount.relative_mount_path.strip('/')}/" for mount in mounted)
    return f"{match['rest']}/".startswith(prefixes)


def output_folder(
    layout: Layout, spec: JobSpec, cluster: ClusterSpec, directory_id: str, segment: str
) -> Path:
    """The folder of one of the job's output directories.

    `workdir`, `artifacts` and `checkpoints` are folders of the run, unless the job declares directories of
    these names.
    """
    outputs = {output.id.lower(): output for output in spec.output_directories or ()}
    output = outputs.get(directory_id.lower())
    if output is None and directory_id.lower() in RUN_FOLDERS:
        return layout.job(PurePath(segment).name).root / directory_id.lower()
    if not output:
        raise api_errors.output_directory_not_found(directory_id, [known.id for known in outputs.values()])
    mounted = _targets_by_root(layout, spec, cluster)
    try:
        base = resolve(output.path_prefix.rstrip("/"), mounted)
    except SpecError as error:  # an arbitrary path of the machine, or on an unmanaged file system
        raise api_errors.output_directory_not_here(directory_id, output.path_prefix) from error
    return base / output.path_below(str(base), segment)


def used_by(layout: Layout, spec: JobSpec, cluster: ClusterSpec) -> list[Path]:
    """The folders mounted for a job, by its own description and its cluster's."""
    roots = _targets_by_root(layout, spec, cluster).values()
    return [folder for mounted in roots for folder in mounted.values()]


def _targets_by_root(layout: Layout, spec: JobSpec, cluster: ClusterSpec) -> dict[str, dict[str, Path]]:
    volumes = cluster.node_setup.mount_volumes if cluster.node_setup else None
    return {
        "AZ_BATCHAI_MOUNT_ROOT": with_default(layout, volumes),
        "AZ_BATCHAI_JOB_MOUNT_ROOT": with_default(layout, spec.mount_volumes),
    }


def resolve(
    path: str,
    roots: dict[str, dict[str, Path]],
    *,
    field: str = "properties.stdOutErrPathPrefix",
    what: str = "the job description",
) -> Path:
    """Resolves a path like `$AZ_BATCHAI_MOUNT_ROOT/autoafs/logs`; `roots` has the mounts of each variable."""
    match = _ON_MOUNT.fullmatch(path)
    mounted = roots.get(match["bare"] or match["braced"]) if match else None
    if match is None or mounted is None:
        fix = "begin it with $AZ_BATCHAI_MOUNT_ROOT/ or $AZ_BATCHAI_JOB_MOUNT_ROOT/ and a mounted path"
        raise SpecError([Problem(field, f"{path!r} is on no mount", fix)], what=what)
    rest = match["rest"]
    for relative, target in mounted.items():
        if rest == relative or rest.startswith(relative.rstrip("/") + "/"):
            inner = rest[len(relative) :].strip("/")
            if ".." in Path(inner).parts:
                break
            return target / inner
    fix = f"mounted are: {', '.join(sorted(mounted)) or 'none'}"
    text = f"{rest!r} is on no share, container or file server"
    raise SpecError([Problem(field, text, fix)], what=what)

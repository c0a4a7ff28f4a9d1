"""Where a job's output directories are, among the shares and containers that it and its cluster mount."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.backends.local.folders import mounts
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.service import refusals
from batchai_magics.errors import SpecError
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.job import JobSpec


def output_root(layout: Layout, spec: JobSpec, cluster: ClusterSpec) -> Path:
    """The folder behind the job's stdOutErrPathPrefix; a SpecError when it is on no mount."""
    return mounts.resolve(layout, spec.std_out_err_path_prefix, _mounted(layout, spec, cluster))


def output_folder(
    layout: Layout, spec: JobSpec, cluster: ClusterSpec | None, directory_id: str, segment: str
) -> Path:
    """The folder of one of the job's output directories. Without its cluster nobody knows where one is."""
    outputs = {output.id.lower(): output for output in spec.output_directories or ()}
    output = outputs.get(directory_id.lower())
    if not (output and cluster):
        raise refusals.output_directory_not_found(directory_id, [known.id for known in outputs.values()])
    mounted = _mounted(layout, spec, cluster)
    try:
        base = mounts.resolve(layout, output.path_prefix.rstrip("/"), mounted)
    except SpecError as error:  # anywhere on the machine, or on an unmanaged file system
        raise refusals.output_directory_not_here(directory_id, output.path_prefix) from error
    return Path(output.path_below(str(base), segment))


def _mounted(layout: Layout, spec: JobSpec, cluster: ClusterSpec) -> dict[str, dict[str, Path]]:
    volumes = cluster.node_setup.mount_volumes if cluster.node_setup else None
    return {
        "AZ_BATCHAI_MOUNT_ROOT": mounts.with_default(layout, volumes),
        "AZ_BATCHAI_JOB_MOUNT_ROOT": mounts.with_default(layout, spec.mount_volumes),
    }

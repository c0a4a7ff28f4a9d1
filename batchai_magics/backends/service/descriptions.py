"""Descriptions as they are stored: what the service adds, their text, and their fingerprints."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchai_magics.backends.base import Spec
    from batchai_magics.models.cluster_spec import ClusterSpec, ImageReference
    from batchai_magics.models.resource_ids import ResourceId


def stored_text(spec: Spec) -> str:
    """The description as it is stored: wire JSON without secrets."""
    return json.dumps(spec.to_wire())


def fingerprint(spec: Spec) -> str:
    """A digest of the requested description, without anything that the service adds.

    Secrets are not included: they could be guessed from a digest.
    """
    import hashlib

    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec

    if isinstance(spec, WorkspaceSpec | ExperimentSpec):
        return ""
    requested = _with_suffix(spec, None) if isinstance(spec, ClusterSpec) else spec
    data = json.dumps(requested.to_wire(), sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def output_segment(job: ResourceId, guid: str) -> str:
    """The path of a run below the output prefix, as the service defines it."""
    return f"{_scope(job)}/experiments/{job.experiment}/jobs/{job.name}/{guid}"


def with_image(spec: ClusterSpec) -> ClusterSpec:
    """The description with the node image that the service chose, if none or no version is given."""
    from batchai_magics.models.cluster_spec import VirtualMachineConfiguration

    requested = spec.virtual_machine_configuration
    image = requested.image_reference if requested and requested.image_reference else _default_image()
    is_complete = image.version or image.virtual_machine_image_id
    complete = image if is_complete else image.model_copy(update={"version": _default_image().version})
    machine = VirtualMachineConfiguration(image_reference=complete)
    return spec.model_copy(update={"virtual_machine_configuration": machine})


@cache
def _default_image() -> ImageReference:
    from batchai_magics.models.cluster_spec import ImageReference

    return ImageReference(publisher="Canonical", offer="UbuntuServer", sku="16.04-LTS", version="latest")


def with_setup_suffix(spec: ClusterSpec, cluster: ResourceId, guid: str) -> ClusterSpec:
    """The description with the path that the service adds for the setup task's logs, if it has one."""
    return _with_suffix(spec, f"{_scope(cluster)}/clusters/{cluster.name}/{guid}")


def _with_suffix(spec: ClusterSpec, suffix: str | None) -> ClusterSpec:
    setup = spec.node_setup
    if not (setup and setup.setup_task):
        return spec
    task = setup.setup_task.model_copy(update={"std_out_err_path_suffix": suffix})
    return spec.model_copy(update={"node_setup": setup.model_copy(update={"setup_task": task})})


def _scope(id: ResourceId) -> str:
    return f"{id.subscription}/{id.group}/workspaces/{id.workspace}"

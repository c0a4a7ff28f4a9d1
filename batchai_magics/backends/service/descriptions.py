"""Descriptions as a backend keeps them: what the service adds, what is written down, how they are known."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchai_magics.backends.base import Spec
    from batchai_magics.models.cluster_spec import ClusterSpec, ImageReference
    from batchai_magics.models.resource_ids import ResourceId


def kept_text(spec: Spec) -> str:
    """The description as it is kept: wire JSON without secrets."""
    return json.dumps(spec.to_wire())


def fingerprint(spec: Spec) -> str:
    """A digest to know again by what was asked for, with nothing that the service adds.

    Secrets are not in it: a digest of them could be guessed.
    """
    import hashlib

    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec

    if isinstance(spec, WorkspaceSpec | ExperimentSpec):
        return ""
    asked = _with_suffix(spec, None) if isinstance(spec, ClusterSpec) else spec
    data = json.dumps(asked.to_wire(), sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def output_segment(job: ResourceId, guid: str) -> str:
    """The path below the output prefix that belongs to one run of a job, as the service wrote it."""
    return f"{_scope(job)}/experiments/{job.experiment}/jobs/{job.name}/{guid}"


def with_image(spec: ClusterSpec) -> ClusterSpec:
    """The description with the nodes' image that the service chose where none is named, or no version."""
    from batchai_magics.models.cluster_spec import VirtualMachineConfiguration

    asked = spec.virtual_machine_configuration
    image = asked.image_reference if asked and asked.image_reference else _usual_image()
    is_whole = image.version or image.virtual_machine_image_id
    named = image if is_whole else image.model_copy(update={"version": _usual_image().version})
    machine = VirtualMachineConfiguration(image_reference=named)
    return spec.model_copy(update={"virtual_machine_configuration": machine})


@cache
def _usual_image() -> ImageReference:
    from batchai_magics.models.cluster_spec import ImageReference

    return ImageReference(publisher="Canonical", offer="UbuntuServer", sku="16.04-LTS", version="latest")


def with_setup_suffix(spec: ClusterSpec, cluster: ResourceId, guid: str) -> ClusterSpec:
    """The description with the path that the service adds for the logs of a setup task, if there is one."""
    return _with_suffix(spec, f"{_scope(cluster)}/clusters/{cluster.name}/{guid}")


def _with_suffix(spec: ClusterSpec, suffix: str | None) -> ClusterSpec:
    setup = spec.node_setup
    if not (setup and setup.setup_task):
        return spec
    task = setup.setup_task.model_copy(update={"std_out_err_path_suffix": suffix})
    return spec.model_copy(update={"node_setup": setup.model_copy(update={"setup_task": task})})


def _scope(id: ResourceId) -> str:
    return f"{id.subscription}/{id.group}/workspaces/{id.workspace}"

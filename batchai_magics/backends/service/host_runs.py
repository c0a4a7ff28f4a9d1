"""Jobs whose image nothing here runs: refused if the user named it, else run on the host with a note."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from batchai_magics.errors import CapabilityError

if TYPE_CHECKING:
    from batchai_magics.models.job_spec import JobSpec

IMAGE_NOT_USED = "ImageNotUsed"  # the code of the warning


class HostRuns(NamedTuple):
    """What an engine does with jobs whose image it cannot use."""

    reason: str  # why nothing runs the image
    remedy: str  # what to do so that something does
    preparation_setting: str = ""  # the setting that lets the preparation of such a job run on the host
    runs_preparation: bool = False  # its value


NO_CONTAINERS = HostRuns("this backend runs no containers", "Leave it out, or choose another backend.")


def host_note(job: JobSpec, host: HostRuns) -> str:
    """What to tell the user of a job that runs on the host, without its image.

    Raises:
        CapabilityError: The user named the image, so it does not run at all.
    """
    assert job.container_settings, "only a job with an image can lack it"
    image = job.container_settings.image_source_registry.image
    if job.batchai_needs_image:
        text = f"image {image} cannot be used: {host.reason}"
        raise CapabilityError(text, code="NotSupported", hint=f"{host.remedy} Nothing was submitted.")
    note = f"{host.reason}: image {image} is not used, the job runs on the host"
    if not job.job_preparation:
        return note
    from batchai_magics.cell.cell_job_spec import without_copy  # few jobs need it

    command = without_copy(job.job_preparation.command_line)
    if not command:
        return note
    if host.runs_preparation:
        return f"{note}, and so does its preparation"
    allow = f" ({host.preparation_setting}=yes runs it on the host)" if host.preparation_setting else ""
    return f"{note}. Its preparation, written for the image, is not run{allow}: {command}"


def without_preparation(job: JobSpec, host: HostRuns) -> JobSpec:
    """What such a job runs on the host: without its preparation, unless the settings allow that.

    Its working directory has the uploads in any case.
    """
    if host.runs_preparation or not job.job_preparation:
        return job
    from batchai_magics.cell.cell_job_spec import only_copy  # few jobs need it

    copy = only_copy(job.job_preparation.command_line)
    preparation = job.job_preparation.model_copy(update={"command_line": copy}) if copy else None
    return job.model_copy(update={"job_preparation": preparation})

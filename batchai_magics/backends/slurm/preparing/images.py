"""Images of jobs: what runs containers on the nodes, refused by name where nothing does."""

from __future__ import annotations

from collections.abc import Callable

from batchai_magics.backends.node import containers
from batchai_magics.errors import CapabilityError

HOST = "host"  # instead of an engine: jobs run without their image
ENGINES = ("apptainer", "singularity", "enroot", "podman")
_FIELD = "properties.containerSettings"


def engine(configured: str, *, has_credentials: bool, has: Callable[[str], bool]) -> tuple[str, ...]:
    """The command that runs a job's containers; none where the host is to do.

    `has` tells whether a program is where jobs are submitted, which is taken for a machine like the nodes: a
    CapabilityError where none is.
    """
    if has_credentials:
        field = f"{_FIELD}.imageSourceRegistry.credentials"
        raise _refusal(field, "", "Sign in where the image is pulled; nothing was written.")
    if configured:
        return () if configured.strip() == HOST else containers.engine(configured)
    found = [name for name in ENGINES if has(name)]
    if not found:
        reason = f" here: there is no {', '.join(ENGINES[:-1])} or {ENGINES[-1]}"
        hint = f"Set slurm.container_command to what the nodes have, or to `{HOST}` to do without the image."
        raise _refusal(_FIELD, reason, hint)
    return (found[0],)


def _refusal(field: str, reason: str, hint: str) -> CapabilityError:
    return CapabilityError(
        f"{field} is not supported by the slurm backend{reason}", code="NotSupported", hint=hint
    )

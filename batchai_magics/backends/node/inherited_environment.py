"""The environment variables that jobs inherit from their submitter, on every backend.

Only these are passed on, since a notebook's other variables are no other job's concern. Standard library
only.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ"),
        *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"),
        *("MODULEPATH", "LOADEDMODULES", "_LMFILES_"),
    }
)
TUNING_PREFIXES = (
    *("CUDA_", "OMP_", "MKL_", "OPENBLAS_", "TF_"),  # devices and threads
    *("NCCL_", "UCX_", "FI_"),  # networks
    *("MPIR_", "MPICH_", "I_MPI_", "OMPI_"),  # MPI
)
_PREFIXES = (
    *("LC_", "CONDA_", "LMOD_", "SSL_", "XDG_CACHE"),  # language, programs and certificates
    *TUNING_PREFIXES,
    "PMIX_",
)
# Set for a submitter that is itself a rank; the job has its own ranks.
_OF_A_RANK = ("OMPI_COMM_", "OMPI_UNIVERSE_", "OMPI_APP_", "PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_")


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that a job inherits."""
    return {name: value for name, value in environ.items() if is_inherited(name)}


def is_inherited(name: str) -> bool:
    """Whether a job inherits the variable of that name."""
    return name in _NAMES or (name.startswith(_PREFIXES) and not name.startswith(_OF_A_RANK))

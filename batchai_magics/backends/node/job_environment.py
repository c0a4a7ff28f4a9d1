"""What a job finds on its node: inherited environment variables, free ports, the programs and its module."""

from __future__ import annotations

import random
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

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


_LOWEST, _HIGHEST = 10_000, 65_535
_DEFAULT_FIRST_EPHEMERAL = 32_768  # Linux's default; other systems start higher
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_MIN_CHOICE = 5_000  # so many that jobs planned at the same time rarely choose the same
_MAX_TRIES = 1_000


def free_ports(count: int, host: str = "") -> tuple[int, ...]:
    """Distinct ports on which nothing listens; OSError if there are not enough.

    A job's programs bind them seconds or minutes later, and nothing reserves them until then. So they are
    chosen outside the ephemeral range, from which the system assigns ports to new connections.
    """
    sockets: list[socket.socket] = []
    choice, rng = _choose_range(_ephemeral_range()), random.SystemRandom()
    try:
        for _ in range(_MAX_TRIES + count):
            if len(sockets) == count:
                break
            _try_bind(sockets, host, rng.choice(choice))
        else:
            raise OSError(f"{count} free ports were not found between {choice[0]} and {choice[-1]}.")
        return tuple(bound.getsockname()[1] for bound in sockets)
    finally:
        for bound in sockets:
            bound.close()


def _try_bind(sockets: list[socket.socket], host: str, port: int) -> None:
    import socket  # supervisors choose no ports

    bound = socket.socket()
    try:
        bound.bind((host, port))  # fails if something listens
    except OSError:  # in use
        bound.close()
    else:
        sockets.append(bound)


def _ephemeral_range() -> tuple[int, int]:
    """The first and last port of the system's ephemeral range."""
    try:
        first, last = _EPHEMERAL_RANGE.read_text(encoding="ascii").split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _DEFAULT_FIRST_EPHEMERAL, _HIGHEST


def _choose_range(ephemeral: tuple[int, int]) -> range:
    """The larger range outside the ephemeral ports; all ports if that is too small."""
    first, last = ephemeral
    others = max(range(_LOWEST, first), range(last + 1, _HIGHEST + 1), key=len)
    return others if len(others) >= _MIN_CHOICE else range(_LOWEST, _HIGHEST + 1)


_HERE = Path(__file__).parent
_RANKS = _HERE / "ranks"
RUN_RANKS = str(_RANKS / "run_ranks.py")
RUN_SCRIPT = str(_RANKS / "run_script.py")
JOB_MODULE = _HERE / "job_module.py"
# What a job's processes find on their module path, by the names under which they do.
JOB_MODULES = {
    "batchai_magics.py": JOB_MODULE,
    "batchai_secret_masking.py": _HERE.parents[1] / "models" / "secret_masking.py",
    "sitecustomize.py": _HERE / "stack_hook.py",
}


def with_module_path(command: str, folder: Path) -> str:
    """The shell command with a folder appended to PYTHONPATH."""
    return f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{shlex.quote(str(folder))}; {command}'

"""The environment of a job on its node: inherited variables, free ports, our programs and its module."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

_LOGIN = r"[^\s/@]+@"
_PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY")
PROXIES = (*_PROXY_NAMES, *map(str.lower, _PROXY_NAMES))
_NAMES = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ"),
        *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"),
        *("MODULEPATH", "LOADEDMODULES", "_LMFILES_"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *PROXIES,
    }
)
TUNING_PREFIXES = (
    *("CUDA_", "OMP_", "MKL_", "OPENBLAS_", "TF_"),  # devices and threads
    *("NCCL_", "UCX_", "FI_"),  # networks
    *("MPIR_", "MPICH_", "I_MPI_", "OMPI_"),  # MPI
    *("HF_", "TORCH_", "WANDB_"),  # libraries
)
_PREFIXES = (
    *("LC_", "CONDA_", "LMOD_", "SSL_", "XDG_CACHE"),  # language, programs and certificates
    *TUNING_PREFIXES,
    "PMIX_",
)
# Set for a submitter that is itself a rank, or a run of an experiment tracker; the job has its own.
_OF_A_RANK = (
    *("OMPI_COMM_", "OMPI_UNIVERSE_", "OMPI_APP_", "PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_"),
    *("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SERVICE"),
)
# Variables of the submitter's process, session or job; no pattern passes them.
_OF_SUBMITTER = (
    *("PMI_", "PMIX_", "SLURM_", "SBATCH_", "SRUN_", "AZ_BATCH", "BATCHAI_", "TORCHELASTIC_", "JPY_", "SSH_"),
    *("RANK", "LOCAL_", "GROUP_", "ROLE_", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG"),
    *("TMPDIR", "PWD", "OLDPWD", "SHLVL", "HOSTNAME", "TERM", "DISPLAY", "XDG_RUNTIME_DIR", "XDG_SESSION_"),
    *("DBUS_SESSION_",),
)


def inherited(environ: Mapping[str, str], patterns: str = "") -> dict[str, str]:
    """The variables of an environment that a job inherits, without those that look like a secret.

    `patterns` are additional names, with `*` and `?`, separated by commas or blanks: the setting `pass_env`.
    """
    from batchai_magics.models.secret_masking import is_secret_name, is_secret_text  # supervisors need none

    more = patterns.replace(",", " ").split()

    def is_wanted(name: str) -> bool:
        if name in _NAMES or name.startswith(_OF_A_RANK):
            return name in _NAMES
        is_passed = name != "_" and not name.startswith(_OF_SUBMITTER)
        matches = is_passed and any(fnmatchcase(name, pattern) for pattern in more)
        return matches or name.startswith(_PREFIXES)

    return {
        name: value
        for name, value in environ.items()
        if is_wanted(name) and (name in PROXIES or not (is_secret_name(name) or is_secret_text(value)))
    }


def submitter_environment(environ: Mapping[str, str], folder: str, patterns: str = "") -> dict[str, str]:
    """The environment that jobs inherit, with the folder of their Python first on PATH, if it is not empty.

    Jobs then run `python` and `mpirun` from that folder. In a job, it may be the first one already.
    """
    env = inherited(environ, patterns)
    paths = env.get("PATH", os.defpath).split(os.pathsep)
    env["PATH"] = os.pathsep.join([*[folder] * bool(folder), *paths[paths[0] == folder :]])
    env["PYTHONUNBUFFERED"] = "1"
    return env


def without_logins(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that contain a login, such as a proxy's address: no file may have one."""
    return {name: value for name, value in environ.items() if not re.search(_LOGIN, value)}


_LOWEST, _HIGHEST = 10_000, 65_535
_DEFAULT_FIRST_EPHEMERAL = 32_768  # Linux's default; other systems start higher
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_MIN_CHOICE = 5_000  # so many that jobs planned at the same time rarely choose the same
_MAX_TRIES = 1_000


def free_ports(count: int, host: str = "", *, ephemeral_range: Path = _EPHEMERAL_RANGE) -> tuple[int, ...]:
    """Distinct ports on which nothing listens; raises OSError if there are not enough.

    A job's programs bind them seconds or minutes later, and nothing reserves them until then. So they are
    chosen outside the ephemeral range, from which the system assigns ports to new connections.
    """
    if not count:
        return ()
    import random  # most plans need no ports, and supervisors start fast without these
    import socket

    sockets: list[socket.socket] = []
    choice, rng = _choose_range(_first_and_last(ephemeral_range)), random.SystemRandom()
    try:
        for _ in range(_MAX_TRIES + count):
            if len(sockets) == count:
                break
            bound = socket.socket()
            try:
                bound.bind((host, rng.choice(choice)))
            except OSError:  # something listens there
                bound.close()
            else:
                sockets.append(bound)
        else:
            raise OSError(f"{count} free ports were not found between {choice[0]} and {choice[-1]}.")
        return tuple(bound.getsockname()[1] for bound in sockets)
    finally:
        for bound in sockets:
            bound.close()


def _first_and_last(ephemeral_range: Path) -> tuple[int, int]:
    """The first and last port of the system's ephemeral range."""
    try:
        first, last = ephemeral_range.read_text(encoding="ascii").split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _DEFAULT_FIRST_EPHEMERAL, _HIGHEST


def _choose_range(ephemeral: tuple[int, int]) -> range:
    """The larger range outside the ephemeral ports; all ports if that is too small."""
    first, last = ephemeral
    allowed = max(range(_LOWEST, first), range(last + 1, _HIGHEST + 1), key=len)
    return allowed if len(allowed) >= _MIN_CHOICE else range(_LOWEST, _HIGHEST + 1)


_HERE = Path(__file__).parent
RUN_SCRIPT = str(_HERE / "ranks" / "run_script.py")
JOB_MODULE = _HERE / "job_module.py"
# The modules on the module path of a job's processes: name → the file that is copied there.
JOB_MODULES = {
    "batchai_magics.py": JOB_MODULE,
    "batchai_secret_masking.py": _HERE.parents[1] / "models" / "secret_masking.py",
    "sitecustomize.py": _HERE / "stack_hook.py",
}


def with_module_path(command: str, folder: Path) -> str:
    """The shell command with a folder appended to PYTHONPATH."""
    return f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{shlex.quote(str(folder))}; {command}'

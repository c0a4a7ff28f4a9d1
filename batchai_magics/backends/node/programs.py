"""The programs that run on nodes: where they are, and a copy of them for machines without this package."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from batchai_magics.launch import plan, typed_json

_HERE = Path(__file__).parent
_RUNNER = _HERE / "runner"
RUN_RANKS = str(_RUNNER / "run_ranks.py")
RUN_SCRIPT = str(_RUNNER / "run_script.py")
JOB_MODULE = _HERE / "job_module.py"
# What they import; each imports the standard library and its neighbours alone.
NEIGHBOURS = (
    *("bell", "connections", "exits", "guard", "log_seals", "pmi", "pmi_wire", "printed_secrets"),
    *("gpus", "rank", "ranks", "signed_record", "strays", "streams", "telemetry"),
)


def copy_to(folder: Path) -> None:
    """Copies the programs with all that they import to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    neighbours = [_RUNNER / f"{name}.py" for name in NEIGHBOURS]
    plans = [Path(module.__file__ or "") for module in (plan, typed_json)]
    for file in (Path(RUN_RANKS), Path(RUN_SCRIPT), *plans, *neighbours):
        shutil.copy(file, folder)


def put_job_module(folder: Path) -> None:
    """Makes a folder, its owner's alone, for a job's module path: what `import batchai_magics` gives it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    module = folder / "batchai_magics.py"
    shutil.copyfile(JOB_MODULE, module)
    module.chmod(0o600)


def with_module_path(command: str, folder: Path) -> str:
    """The shell command with a folder behind those that Python looks for modules in anyway."""
    return f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{shlex.quote(str(folder))}; {command}'

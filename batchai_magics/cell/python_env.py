"""Makes the virtual environment of a job's ranks: python_env.py FOLDER isolated|extended VERSION PACKAGE...

A standalone program that uses only the standard library; it is uploaded beside the script and runs on every
node before the job. The folder lies on a share and is named by its packages: it is made once. An extended
environment also has the packages of the Python that runs this program.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ISOLATED, EXTENDED = "isolated", "extended"
_MISSING = "uv makes the environment, and this machine has none: `pip install uv` there, or use --prep."


def main() -> None:
    """Creates the environment unless it exists; several nodes may do so at once."""
    folder, kind, version, *packages = sys.argv[1:]
    target = Path(os.path.expandvars(folder))
    if (target / "bin" / "python").exists():
        return
    part = target.with_name(f"{target.name}.{os.uname().nodename}.{os.getpid()}")
    try:
        uv = _uv()
        _run(*uv, "venv", "--quiet", "--relocatable", "--python", version or sys.executable, str(part))
        if kind == EXTENDED:
            (site,) = part.glob("lib/python*/site-packages")
            base_paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
            (site / "batchai_base.pth").write_text("\n".join(sorted(base_paths)) + "\n", encoding="utf-8")
        if packages:
            _run(*uv, "pip", "install", "--quiet", "--python", str(part / "bin" / "python"), *packages)
        part.rename(target)
    except OSError:
        if not (target / "bin" / "python").exists():  # unless another node was faster
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _uv() -> list[str]:
    uv = shutil.which("uv")
    if uv:
        return [uv]
    if importlib.util.find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    raise SystemExit(f"batchai: {_MISSING}")


def _run(*command: str) -> None:
    code = subprocess.call(command)
    if code:
        packages = "The packages could not be installed; see above. Without a network, name files of wheels."
        raise SystemExit(f"batchai: `{' '.join(command)}` has failed. {packages}")


if __name__ == "__main__":
    main()

"""The Python environment that a script asks for, with `--python`, `--with` or a block of PEP 723. Pure."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from batchai_magics.cell.cell_job_spec import INPUT
from batchai_magics.cell.cell_options import CellOptions
from batchai_magics.cell.python_env import EXTENDED, ISOLATED
from batchai_magics.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROGRAM = "python_env.py"  # runs on the nodes
FOLDER = "environments"  # of the share
_BLOCK = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")  # as PEP 723 says
_DIGEST_LENGTH = 12


@dataclass(frozen=True)
class ScriptMetadata:
    """What a script's PEP 723 block asks for."""

    packages: tuple[str, ...]
    python: str = ""  # requires-python


def script_metadata(script: str) -> ScriptMetadata | None:
    """The PEP 723 block of a script; None for a script without one.

    Raises:
        UsageError: The block is not valid.
    """
    match = _BLOCK.search(script)
    if not match:
        return None
    lines = match["content"].splitlines()
    try:
        data = tomllib.loads("\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines))
        packages, python = data.get("dependencies", []), data.get("requires-python", "")
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the script's block `# /// script` is not valid: {error}") from None
    if not (isinstance(packages, list) and all(isinstance(each, str) for each in (*packages, python))):
        raise UsageError("the script's block `# /// script` is not valid: dependencies are a list of texts")
    return ScriptMetadata(tuple(packages), python)


def with_environment(
    asked: CellOptions, script: str, share_path: str
) -> tuple[CellOptions, Mapping[str, bytes]]:
    """The options with the Python of the ranks and what makes it, and the program for that.

    Raises:
        UsageError: The options or the script's block are wrong.
    """
    metadata = None if asked.python else script_metadata(script)
    if asked.python and asked.packages:
        raise UsageError("--python and --with are both given", hint="Install the packages into that Python.")
    if not (metadata or asked.packages):
        return asked, {}
    packages = tuple(dict.fromkeys((*(metadata.packages if metadata else ()), *asked.packages)))
    words = (ISOLATED if metadata else EXTENDED, metadata.python if metadata else "", *packages)
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:_DIGEST_LENGTH]
    folder = f"{share_path}/{FOLDER}/{digest}"
    making = f'mkdir -p "{share_path}/{FOLDER}" && python "{INPUT}/{PROGRAM}" "{folder}" {shlex.join(words)}'
    changed = replace(
        asked,
        python=f"{folder}/bin/python",
        prep=" && ".join(filter(None, (making, asked.prep))),
    )
    return changed, {PROGRAM: Path(__file__).with_name(PROGRAM).read_bytes()}

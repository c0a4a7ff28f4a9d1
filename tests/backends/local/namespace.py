"""Scenes for a mount namespace of their own, where this user may mount; each prints what it finds as JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]
CODE = "import sys; from {module} import {name}; from pathlib import Path; {name}(Path(sys.argv[1]))"
AS_ROOT = ("unshare", "-Urm")
AS_SOMEBODY = ("unshare", "-Um", "--map-user=1000")


def scene(play: FunctionType, folder: Path, *, who: tuple[str, ...] = AS_ROOT) -> list[object]:
    """What a function of a test module prints when it runs in a namespace of its own, line by line."""
    if sys.platform != "linux":
        pytest.skip("only on Linux are there mount namespaces")
    if not shutil.which("unshare") or subprocess.run([*who, "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no mount namespaces")
    module = ".".join(Path(play.__code__.co_filename).relative_to(ROOT).with_suffix("").parts)
    code = CODE.format(module=module, name=play.__name__)
    argv = [*who, sys.executable, "-c", code, str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def tell(*values: object) -> None:
    """Prints one line of what a scene found."""
    print(json.dumps(values[0] if len(values) == 1 else values), flush=True)

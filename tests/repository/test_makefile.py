import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = ROOT / "Makefile"
TARGETS = re.findall(r"^([a-z-]+):", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE)

pytestmark = pytest.mark.slow


def make(*words, folder):
    """Runs make as from a shell, also where these tests were started by make."""
    outer = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    env = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(["make", *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path):
    """A folder that holds what the targets look at before they install anything."""
    shutil.copy(MAKEFILE, tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def python(folder, *, code):
    """A stand-in for a Python that lacks something: it fails on the code that asks for it."""
    stand_in = folder / "python"
    stand_in.write_text(f'#!/bin/sh\ncase "$2" in *{code}*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    stand_in.chmod(0o755)
    return f"PYTHON={stand_in}"


def test_make_alone_lists_every_target_with_its_meaning(clone):
    listed = make(folder=clone).stdout.splitlines()
    assert [line.split()[1] for line in listed] == TARGETS
    assert all(len(line.split()) > 3 for line in listed)


@pytest.mark.parametrize("target", ["demo", "test", "lint"])
def test_a_target_begins_with_an_environment_of_its_own(clone, target):
    plan = make("--dry-run", target, folder=clone).stdout
    assert plan.index("-m venv .venv") < plan.index(".ci/install.py")


def test_an_old_python_is_refused_with_the_way_out(clone):
    done = make("demo", python(clone, code="version_info"), folder=clone)
    assert done.returncode != 0
    assert "is not Python 3.10 or newer: name one with make PYTHON=" in done.stdout


def test_a_python_without_ensurepip_is_refused_with_the_package_to_install(clone):
    done = make("demo", python(clone, code="ensurepip"), folder=clone)
    assert done.returncode != 0
    assert "install python3-venv" in done.stdout
    assert not (clone / ".venv").exists()


def test_an_installation_shows_how_far_it_is():
    lines = ["Obtaining file:///clone", "Collecting numpy>=1.26 (from x)", "  Downloading numpy.whl (17 MB)"]
    lines += [
        "Collecting rich>=13",
        "Installing collected packages: numpy, rich",
        "Successfully installed …",
        "",
    ]
    shown = runpy.run_path(str(ROOT / ".ci/install.py"))["progress"](lines)
    assert [*shown] == [
        "package 1: numpy>=1.26",
        "package 2: rich>=13",
        "installing 2 packages",
    ]


def test_ci_runs_the_same_targets_as_a_person():
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("make ")] == ["make lint", "make test"]


def test_targets_keep_bytecode_also_where_the_environment_forbids_it(clone, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    python = clone / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "forbidden: ${PYTHONDONTWRITEBYTECODE:-no}"\n')
    python.chmod(0o755)
    for name in ("test.installed", "bin/pip"):
        (clone / ".venv" / name).touch()
    assert make("test", "CI=", folder=clone).stdout == "forbidden: no\n"

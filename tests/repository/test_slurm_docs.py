"""The pages on Slurm name errors, settings, columns and variables that there are."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import batchai_magics
from batchai_magics.backends.machines.machine import Machine
from batchai_magics.backends.slurm import client
from batchai_magics.backends.slurm.settings import SlurmSettings

PACKAGE = Path(batchai_magics.__file__).parent
DOCS = PACKAGE.parent / "docs"
USERS, ADMINS = ((DOCS / name).read_text(encoding="utf-8") for name in ("slurm.md", "slurm-admins.md"))
SOURCES = "".join(
    file.read_text(encoding="utf-8")
    for folder in ("backends", "models")
    for file in (PACKAGE / folder).rglob("*.py")
)
CODES = sorted(
    {
        code
        for row in re.findall(r"^\| (`[A-Z].*?) \|", USERS, re.M)
        for code in re.findall(r"`([A-Z]\w+)`", row)
    }
)


def test_the_table_of_errors_was_found() -> None:
    assert {"HomeNotShared", "JobOutOfMemory", "JobNodeLost", "HostKeyChanged"} <= set(CODES)


@pytest.mark.parametrize("code", [code for code in CODES if re.search("[a-z]", code)])
def test_an_error_that_is_explained_is_raised_somewhere(code: str) -> None:
    assert f'"{code}"' in SOURCES


@pytest.mark.parametrize("page", [USERS, ADMINS], ids=["users", "admins"])
def test_settings_are_called_as_they_are(page: str) -> None:
    known = {field.name for field in fields(SlurmSettings)}
    named = set(re.findall(r"`slurm\.(\w+)[`:]", page)) - {"conf"}
    named |= {name.lower() for name in re.findall(r"BATCHAI_SLURM_(\w+)=", page)}
    assert named
    assert named <= known


def test_network_variables_that_are_said_to_reach_jobs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    (listed,) = re.findall(r"choice of network \((.*?)\)", USERS)
    names = [f"{prefix}TEST" for prefix in re.findall(r"`(\w+_)\*`", listed)]
    for name in names:
        monkeypatch.setenv(name, "x")
    assert len(names) >= 8
    assert set(names) <= set(client.command_environment(Machine(), sys.executable))


def test_auto_scale_is_not_refused_on_one_page_and_explained_on_the_same() -> None:
    (refused,) = re.findall(r"Not supported, and rejected by name: (.*)", USERS)
    assert "auto-scale where Slurm does not start and stop nodes" in refused
    assert "#elastic-nodes" in refused


@pytest.mark.parametrize("anchor", sorted(set(re.findall(r"\]\(#([\w-]+)\)", USERS + ADMINS))))
def test_a_section_that_is_linked_is_there(anchor: str) -> None:
    titles = re.findall(r"^#+ (.*)$", USERS + ADMINS, re.M)
    assert anchor in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]

"""Backends that other packages bring: an entry point, and they are everywhere that ours are."""

import json
import subprocess
import sys

import pytest

from batchai_magics.backends.base.backend_registry import BACKENDS, choose, load_settings, open_backend
from batchai_magics.cell import Notebook
from batchai_magics.cell import parse as parse_cell
from batchai_magics.commands.parsing.command_completion import expected_in_line
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, SpecError, UsageError
from batchai_magics.magics.magic_commands import parse_line
from batchai_magics.models.backend_options import BackendOption

MODULE = """
from dataclasses import dataclass
from typing import ClassVar
from batchai_magics.config import setting
from batchai_magics.models.backend_options import BackendOption

def check(text):
    if text != "high":
        raise ValueError(f"{text!r} is no tide")

@dataclass(frozen=True)
class MoonSettings:
    BACKEND_OPTIONS: ClassVar = (BackendOption("tide", "the tide to wait for", "TIDE", check),)
    crater: str = setting("tycho", "where on the moon")
    cold_s: int = setting(7, "how long a night is")

IMPLEMENTED_IN = __name__
OWN_SETTINGS = MoonSettings

def open_backend(settings):
    return settings.for_backend(MoonSettings)
"""
WITHOUT_UNIX = """
import asyncio, signal, subprocess, sys, tempfile
sys.modules |= dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios"))
for name in ("SIGCHLD", "SIGHUP", "SIGKILL", "SIGUSR1"):
    delattr(signal, name)
"""
JOB = {"nodeCount": 1, "stdOutErrPathPrefix": "x", "customToolkitSettings": {"commandLine": "true"}}
POINTS = """
[batchai_magics.backends]
moon = moon_backend
broken = no_such_module
local = moon_backend
"""


@pytest.fixture
def moon(tmp_path, monkeypatch):
    """A package that brings the backend `moon`, one that cannot be imported, and one called as ours is."""
    (tmp_path / "moon_backend.py").write_text(MODULE)
    info = tmp_path / "moon_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moon-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "moon"
    sys.modules.pop("moon_backend", None)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.yaml"


def test_a_plugin_is_listed_and_replaces_no_builtin_backend(moon):
    assert list(BACKENDS) == ["local", "arm", "slurm", "azureml", "ray", "moon", "broken"]
    assert "Moon" in BACKENDS
    assert BACKENDS.opening("local").__name__ == "batchai_magics.backends.local.opening"


def test_a_plugin_has_settings_of_its_own(moon, file, monkeypatch):
    file.write_text("backend: moon\nmoon:\n  crater: copernicus\n")
    own = open_backend(load_settings({"BATCHAI_MOON_COLD_S": "9"}, path=file))
    assert (own.crater, own.cold_s) == ("copernicus", 9)
    monkeypatch.setenv("BATCHAI_MOON_CRATER", "plato")
    assert open_backend(choose(Settings(), "moon")).crater == "plato"


def test_settings_of_a_plugin_are_checked(moon, file):
    file.write_text("moon:\n  carter: x\n")
    with pytest.raises(UsageError, match='Did you mean "crater"'):
        load_settings({}, path=file)


def test_use_accepts_a_plugin_and_refuses_unknown_names(moon):
    assert parse(["use", "--backend", "moon"]).arguments.backend == "moon"
    with pytest.raises(UsageError, match="Did you mean"):
        parse(["use", "--backend", "mooon"])


def test_completion_and_help_have_the_plugin(moon):
    assert {"local", "moon"} <= set(expected_in_line(["use", "--backend"]).words)
    assert "local, arm, slurm, azureml, ray, moon" in str(parse(["use", "--help"]))


def test_cells_have_the_job_options_of_a_plugin(moon):
    settings = choose(Settings(), "moon")
    described = parse_cell("r --tide high", "print(1)", settings=settings).spec.to_wire()["properties"]
    assert described["batchaiTide"] == "high"
    with pytest.raises(UsageError, match="--tide: 'low' is no tide"):
        parse_cell("r --tide low", "print(1)", settings=settings)
    with pytest.raises(UsageError, match="unknown option --tide"):
        parse_cell("r --tide high", "print(1)", settings=load_settings())


def test_job_options_of_a_plugin_in_a_file_are_checked(moon, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps({"properties": {**JOB, "batchaiTide": "low"}}))
    with pytest.raises(SpecError, match=r"properties\.batchaiTide: 'low' is no tide"):
        parse_cell(
            "r --file job.json", "", settings=choose(Settings(), "moon"), notebook=Notebook(folder=tmp_path)
        )


def test_commands_help_and_completion_have_the_job_options_of_a_plugin(moon):
    settings = choose(Settings(), "moon")
    words = ["job", "create", "-n", "r", "-f", "job.json"]
    assert parse([*words, "--tide", "high"], settings).arguments.tide == "high"
    assert "--tide : The tide to wait for." in " ".join(str(parse(["job", "create", "-h"], settings)).split())
    assert "--tide" in expected_in_line(words, settings).words
    assert "--tide" in parse_line("%%batchai_job r ", is_first=True, settings=settings)[0].words
    with pytest.raises(UsageError, match="unrecognized arguments: --tide"):
        parse([*words, "--tide", "high"], load_settings())


def test_a_job_option_of_a_plugin_cannot_have_the_name_of_a_builtin_one(moon, monkeypatch):
    kind = BACKENDS.settings_type("moon")
    monkeypatch.setattr(kind, "BACKEND_OPTIONS", (BackendOption("nodes", "taken"),))
    with pytest.raises(UsageError, match="a backend declares the option --nodes, which exists already"):
        parse_cell("r", "print(1)", settings=choose(Settings(), "moon"))


def test_a_plugin_that_cannot_be_imported_is_reported(moon):
    with pytest.raises(CapabilityError, match="the broken backend cannot be loaded"):
        open_backend(Settings(backend="broken"))


def test_builtin_backends_need_no_search_for_entry_points(file, tmp_path, monkeypatch):
    def refuse(*given, **named):
        raise AssertionError("installed packages were searched")

    monkeypatch.syspath_prepend(str(tmp_path))  # with another path, what was found before does not count
    monkeypatch.setattr("importlib.metadata.entry_points", refuse)
    settings = load_settings({}, path=file)
    assert BACKENDS.opening(settings.backend)
    assert BACKENDS
    with pytest.raises(AssertionError):
        list(BACKENDS)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["magics.extension", "commands.specs.command_table"])
def test_loading_the_magics_or_the_commands_needs_no_backend(module):
    loaded = "[name for name in sys.modules if name.startswith('batchai_magics.backends')]"
    program = f"import sys, batchai_magics.{module}; assert not {loaded}, {loaded}"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["arm.arm_backend", "azureml.azureml_backend"])
def test_a_client_of_a_service_is_loaded_where_signals_and_modules_of_unix_are_missing(module):
    program = f"{WITHOUT_UNIX}\nimport batchai_magics.backends.{module}"
    subprocess.run([sys.executable, "-c", program], check=True)

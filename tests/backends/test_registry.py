"""Backends that other packages bring: an entry point, and they are everywhere that ours are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from batchai_magics.backends.base import backend_registry
from batchai_magics.backends.base.backend_registry import BACKENDS, choose, load_settings, open_backend
from batchai_magics.commands.parsing.command_completion import expected_in_line
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, UsageError

MODULE = """
from dataclasses import dataclass
from batchai_magics.config import setting

@dataclass(frozen=True)
class MoonSettings:
    crater: str = setting("tycho", "where on the moon")
    cold_s: int = setting(7, "how long a night is")

IMPLEMENTED_IN = __name__
OWN_SETTINGS = MoonSettings

def open_backend(settings):
    return settings.for_backend(MoonSettings)
"""
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


def test_without_other_packages_there_are_ours():
    assert list(BACKENDS) == ["local", "arm", "slurm"]
    assert "moon" not in BACKENDS


def test_a_backend_that_a_package_brings_is_in_the_list(moon):
    assert list(BACKENDS) == ["local", "arm", "slurm", "moon", "broken"]
    assert "Moon" in BACKENDS


def test_the_settings_take_it_with_what_is_its_own(moon, file):
    file.write_text("backend: moon\nmoon:\n  crater: copernicus\n")
    own = open_backend(load_settings({"BATCHAI_MOON_COLD_S": "9"}, path=file))
    assert (own.crater, own.cold_s) == ("copernicus", 9)


def test_its_settings_are_checked_as_ours_are(moon, file):
    file.write_text("moon:\n  carter: x\n")
    with pytest.raises(UsageError, match='did you mean "crater"'):
        load_settings({}, path=file)


def test_choosing_it_later_brings_its_settings(moon, monkeypatch):
    monkeypatch.setenv("BATCHAI_MOON_CRATER", "plato")
    assert open_backend(choose(Settings(), "moon")).crater == "plato"


def test_the_line_takes_it_and_no_other(moon):
    assert parse(["use", "--backend", "moon"]).arguments.backend == "moon"
    with pytest.raises(UsageError, match="did you mean"):
        parse(["use", "--backend", "mooon"])


def test_completion_and_help_have_it(moon):
    assert {"local", "moon"} <= set(expected_in_line(["use", "--backend"]).words)
    assert "local, arm, slurm, moon" in str(parse(["use", "--help"]))


def test_ours_cannot_be_replaced(moon):
    assert BACKENDS.opening("local").__name__ == "batchai_magics.backends.local.opening"


def test_one_that_cannot_be_imported_says_so(moon):
    with pytest.raises(CapabilityError, match="the broken backend cannot be loaded"):
        open_backend(Settings(backend="broken"))


def test_packages_are_not_looked_through_for_what_is_ours(file):
    backend_registry._installed.cache_clear()
    settings = load_settings({}, path=file)
    assert BACKENDS.opening(settings.backend)
    assert BACKENDS
    assert backend_registry._installed.cache_info().misses == 0


@pytest.mark.slow
@pytest.mark.parametrize("module", ["magics.extension", "commands.specs.command_table"])
def test_loading_the_magics_or_the_commands_needs_no_backend(module):
    loaded = "[name for name in sys.modules if name.startswith('batchai_magics.backends')]"
    program = f"import sys, batchai_magics.{module}; assert not {loaded}, {loaded}"
    subprocess.run([sys.executable, "-c", program], check=True)

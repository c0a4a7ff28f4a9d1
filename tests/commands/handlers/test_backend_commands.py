"""`batchai clean` says what it would remove, asks, and then says what it removed."""

from __future__ import annotations

import io
import json
import sys

import pytest

from batchai_magics import cli
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from tests.default_resources import ensure_defaults
from tests.world import World, world

__all__ = ["world"]

pytestmark = pytest.mark.slow


class Terminal(io.StringIO):
    """Somebody who types, or nobody."""

    def isatty(self) -> bool:
        return bool(self.getvalue())


@pytest.fixture
def typed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(request.param))


@pytest.fixture
def home(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("BATCHAI_HOME", str(world.home))
    world.run("one")
    yield world
    world.backend = LocalBackend(LocalSettings(home=world.home))  # the store may be gone
    ensure_defaults(world.backend, world.settings)


@pytest.mark.parametrize("typed", ["n\n"], indirect=True)
def test_clean_lists_what_it_would_remove_and_asks(home, typed, capsys):
    assert cli.main(["clean"]) == 1
    told = capsys.readouterr().err
    assert "This would be removed:" in told
    assert str(home.home / "jobs") in told
    assert "Operation cancelled." in told
    assert (home.home / "jobs").exists()


@pytest.mark.parametrize("typed", ["y\n"], indirect=True)
def test_a_yes_removes_all(home, typed, capsys):
    assert cli.main(["clean", "-o", "json"]) == 0
    parts = json.loads(capsys.readouterr().out)
    assert {"jobs", "state"} <= {part["part"] for part in parts}
    assert all(part["bytes"] >= 0 for part in parts)
    assert list(home.home.iterdir()) == []


@pytest.mark.parametrize("typed", [""], indirect=True)
def test_clean_without_a_terminal_needs_yes(home, typed, capsys):
    assert cli.main(["clean"]) == 1
    assert "--yes" in capsys.readouterr().err
    assert cli.main(["clean", "--yes"]) == 0
    assert list(home.home.iterdir()) == []


def test_old_runs_are_removed_by_age(home, capsys):
    assert cli.main(["clean", "--older-than", "30d", "-y", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert cli.main(["clean", "--older-than", "0h", "--keep-tagged", "-y", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert run["part"] == "default/one"
    assert run["bytes"] > 0
    assert (home.home / "state.db").exists()


@pytest.mark.parametrize("words", [["--older-than", "soon"], ["--keep-tagged"]])
def test_invalid_age_removes_nothing(words, home, capsys):
    assert cli.main(["clean", *words, "-y"]) == 2
    assert "30d" in capsys.readouterr().err
    assert (home.home / "jobs").exists()

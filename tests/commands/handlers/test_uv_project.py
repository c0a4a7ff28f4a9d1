"""The environment of a project is the one that uv itself uses."""

import os
import subprocess
import sys

import pytest

from batchai_magics.commands.handlers.run_command import project_python
from batchai_magics.errors import UsageError
from tests.cell.shiny_wheel import needs_uv
from tests.patience import PATIENCE_S


@pytest.fixture
def workspace(tmp_path):
    """A workspace with one member and an environment."""
    tables = '[project]\nname = "top"\nversion = "0"\n[tool.uv.workspace]\nmembers = ["part"]\n'
    (tmp_path / "pyproject.toml").write_text(tables)
    (tmp_path / "part" / "deep").mkdir(parents=True)
    (tmp_path / "part" / "pyproject.toml").write_text('[project]\nname = "part"\nversion = "0"\n')
    return tmp_path


def in_uv(folder, *words, **env):
    own = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    words = [sys.executable, "-m", "uv", *words]
    done = subprocess.run(
        words, cwd=folder, env={**own, **env}, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return done.stdout.strip()


@needs_uv
@pytest.mark.slow
@pytest.mark.parametrize("env", [{}, {"UV_PROJECT_ENVIRONMENT": "other"}])
def test_a_member_of_a_workspace_uses_the_environment_that_uv_run_uses(workspace, env):
    in_uv(
        workspace, "venv", "--quiet", "--python", sys.executable, env.get("UV_PROJECT_ENVIRONMENT", ".venv")
    )
    for folder in (workspace, workspace / "part", workspace / "part" / "deep"):
        used = in_uv(
            folder, "run", "--no-sync", "--offline", "python", "-c", "import sys; print(sys.prefix)", **env
        )
        assert project_python(folder, env) == f"{used}/bin/python"


def test_without_a_project_the_active_environment_counts(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert project_python(tmp_path, {"VIRTUAL_ENV": str(tmp_path)}) == str(tmp_path / "bin" / "python")
    with pytest.raises(UsageError, match="no environment"):
        project_python(tmp_path, {})

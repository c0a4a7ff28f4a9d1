"""What a process of `batchai` loads, and what it does without."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from batchai_magics import cell
from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit

HEAVY = {"azure", "cryptography", "IPython", "matplotlib", "numpy", "pandas", "psutil", "yaml", "asyncio"}


def printed_by(words, home):
    """What a process of the command prints, and on the last line the modules that it has loaded."""
    code = f"import sys; from batchai_magics.cli import main; main({words}); print(*sys.modules)"
    env = {**os.environ, "BATCHAI_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def loaded_by(words, home):
    """The modules that a process of the command loads, among the words that it prints."""
    return set(printed_by(words, home).split())


FACETS = {"batchai_magics.backends.service.home_subscription"}


@pytest.mark.slow
@pytest.mark.parametrize("output", ["json", "table"])
def test_no_jobs_are_listed_without_what_reads_logs_and_describes_jobs(tmp_path, output):
    loaded = loaded_by(["job", "list", "-o", output], tmp_path)
    packages = {f"batchai_magics.{name}" for name in ("metrics", "follow", "cell")}
    makers = {
        "pydantic",
        "batchai_magics.backends.service.job_admission",
        "batchai_magics.backends.service.resource_changes",
        "batchai_magics.launch.planning",
    }
    assert not loaded & {*HEAVY, *packages, *makers}


@pytest.fixture
def home(tmp_path):
    """A home with a job that waits and one that has ended."""
    settings, backend = Settings(cluster_nodes=0), LocalBackend(LocalSettings(home=tmp_path))
    for name in ("waits", "ended"):
        job = submit(backend, cell.parse(name, "1", settings=settings), settings).job
    backend.terminate(job.id)
    backend.close()
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--top", "1"]])
def test_jobs_are_listed_as_json_without_any_facet(home, words):
    loaded = loaded_by(["job", "list", *words, "-o", "json"], home)
    assert '"ended",' in loaded
    assert not loaded & {*HEAVY, *FACETS}


@pytest.mark.slow
@pytest.mark.parametrize("words", [["ps"], ["show", "waits"], ["cancel", "waits"]])
def test_text_is_printed_without_what_parses_logs(home, words):
    parsing = {f"batchai_magics.metrics.{name}" for name in ("reading.line_reader", "reading.run_facts")}
    assert all(map(find_spec, parsing))
    assert not loaded_by(words, home) & {"azure", "IPython", "matplotlib", "numpy", "pandas", *parsing}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["ps", "-e", "other"], ["job", "list", "-o", "table"], ["logs", "ended"], ["cancel", "ended"]]
)
def test_commands_about_ended_jobs_do_not_load_modules_that_follow_jobs(home, words):
    loaded = loaded_by(words, home)
    assert "batchai_magics.commands.command_runner" in loaded
    modules = "follow.event_loop", "jobs.job_handle", "jobs.job_model", "metrics.reading.log_parser"
    assert not loaded & {*HEAVY, *(f"batchai_magics.{name}" for name in modules)}


@pytest.mark.slow
def test_ended_jobs_are_left_out_of_ps_without_the_models_of_descriptions(home):
    loaded_by(["cancel", "waits"], home)
    loaded = loaded_by(["ps"], home)
    assert "batchai_magics.backends.local.backend" in loaded
    assert not loaded & {*HEAVY, "pydantic", "batchai_magics.models.job_spec"}


@pytest.mark.slow
@pytest.mark.parametrize("output", ["json", "table"])
def test_a_log_is_read_without_what_knows_of_jobs(tmp_path, output):
    log = tmp_path / "train.log"
    log.write_text("10\timages/sec: 400.1 +/- 1.0 (jitter = 2.0)\t7.900\n")
    loaded = loaded_by(["metrics", "read", str(log), "-o", output], tmp_path)
    assert "batchai_magics.metrics" in loaded
    assert not loaded & {
        *HEAVY,
        "pydantic",
        "batchai_magics.models.job_spec",
        "batchai_magics.backends.local.backend",
    }


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["run", "--help"]])
def test_help_comes_without_what_draws_and_serves(tmp_path, words):
    *_, modules = printed_by(words, tmp_path).splitlines()
    drawing, serving = {"IPython", "matplotlib", "pandas", "rich"}, {"mcp", "uv", "optuna", "anywidget"}
    assert not {*modules.split()} & (drawing | serving)


@pytest.mark.slow
def test_the_extension_is_loaded_without_what_draws_and_serves(tmp_path):
    code = """if True:
        import sys
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell()
        before = set(sys.modules)
        shell.extension_manager.load_extension("batchai_magics")
        print(*{name.partition(".")[0] for name in set(sys.modules) - before})
    """
    env = {**os.environ, "BATCHAI_HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "batchai_magics" in loaded
    assert not loaded & {*HEAVY, "rich", "mcp", "uv", "pydantic", "anywidget"}

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest

pytestmark = pytest.mark.slow

CONFTEST = Path(conftest.__file__)


def run(folder, body, *words, ci, before=None):
    shutil.copy(CONFTEST, folder)
    (folder / "test_it.py").write_text("import pytest\n" + body)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, str(folder)]
    # That plugin takes seconds to load, in each worker too.
    env = {"CI": ci, "PYTHONPATH": str(CONFTEST.parents[1]), "PYTEST_ADDOPTS": "-p no:schemathesis"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, preexec_fn=before)


SKIPS = """
def test_here():
    pytest.skip("no browser")
def test_elsewhere():
    pytest.skip("only on macOS")
"""
STARTS = """
import os, signal, subprocess
def test_quick():
    subprocess.run(["true"])
def test_quick_that_catches():
    try: subprocess.run(["true"])
    except Exception: pass
@pytest.mark.slow
def test_slow():
    subprocess.run(["true"])
def test_interrupted():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
"""
UNLOADED = "import pytest\npytest.importorskip('no_such_module')\n"


UNLUCKY = """
import pathlib
@pytest.mark.slow
@pytest.mark.parametrize("number", range({count}))
def test_unlucky(number):
    fail(f"unlucky-{{number}}", 1)
def fail(name, count):
    tried = pathlib.Path(name)
    tries = len(tried.read_text()) if tried.exists() else 0
    tried.write_text("x" * (tries + 1))
    assert tries >= count, f"failure {{tries + 1}} of {{name}}"
"""


def test_a_person_may_skip_tests_and_interrupt_them_none_is_repeated_and_only_slow_ones_start_processes(
    tmp_path,
):
    def as_a_shell_does():
        """Starts a process in the background."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    done = run(tmp_path, SKIPS + STARTS + UNLUCKY.format(count=1), ci="", before=as_a_shell_does)
    assert done.stdout.splitlines()[-1].startswith("3 failed, 2 passed, 2 skipped")
    assert (tmp_path / "unlucky-0").read_text() == "x"
    said = "a test without the mark `slow` starts a process: subprocess.Popen"
    assert f"RuntimeError: {said}" in done.stdout
    assert f"\n{said}" in done.stdout  # also where the error was caught


def test_a_skip_fails_in_ci_with_its_reason_unless_it_is_right_everywhere(tmp_path):
    (tmp_path / "test_unloaded.py").write_text(UNLOADED)
    done = run(tmp_path, SKIPS, "--continue-on-collection-errors", ci="1")
    assert done.stdout.count("\nskipped, which CI does not allow: ") == 2
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 skipped, 1 error")


def test_a_file_of_slow_tests_alone_is_not_loaded_where_none_run(tmp_path):
    body = "pytestmark = pytest.mark.slow\nraise ImportError\n"
    assert run(tmp_path, body, "-m", "not slow", ci="").returncode == 5  # there are no tests


ORDERED = """
import os, pathlib
@pytest.mark.parametrize("number", range(6))
def test_quick(number):
    note("quick")
@pytest.mark.slow
@pytest.mark.parametrize("place", ["local", "ray", "arm", "slurm", "azureml", "slurm over ssh"])
def test_slow(place):
    note(place.split()[0])
def note(word):
    with open(os.environ["PYTEST_XDIST_WORKER"], "a") as file:
        print(word, file=file)
"""


def test_workers_begin_with_slow_tests_and_the_first_with_a_service(tmp_path):
    done = run(tmp_path, ORDERED, "-n3", "--dist=worksteal", ci="")
    assert "12 passed" in done.stdout, done.stdout
    firsts = [file.read_text().split()[0] for file in tmp_path.glob("gw*")]
    assert {"slurm", "ray"} < {*firsts}
    assert "quick" not in firsts


@pytest.mark.parametrize(("markers", "count"), [("", os.cpu_count() + 2), ("not slow", None)])
def test_slow_tests_have_two_more_workers_than_there_are_cores(markers, count):
    config = SimpleNamespace(option=SimpleNamespace(markexpr=markers))
    assert conftest.pytest_xdist_auto_num_workers(config) == count  # None: as many as xdist would start


AT_EXIT = """
import atexit, gc, pathlib
KEPT = []
def test_it():
    KEPT.extend([] for _ in range(100_000))
    atexit.register(lambda: pathlib.Path("left").write_text(str(len(gc.get_objects()))))
"""


def test_what_collects_garbage_at_exit_finds_little_to_look_at(tmp_path):
    done = run(tmp_path, AT_EXIT, ci="")
    assert done.returncode == 0, done.stdout
    assert int((tmp_path / "left").read_text()) < 10_000


DEFECT = """
@pytest.mark.slow
def test_defect():
    fail("defect", 2)
def test_quick():
    fail("quick", 1)
def test_killed():
    if not pathlib.Path("killed").exists():
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_slow_test_that_fails_once_in_ci_or_whose_worker_ended_is_tried_again_and_named(tmp_path):
    imports = "import os, pathlib, signal\n"
    done = run(tmp_path, imports + UNLUCKY.format(count=1) + DEFECT, "-n2", ci="1")
    assert done.returncode == 1
    *lines, closing = done.stdout.strip().splitlines()
    assert closing.startswith("2 failed, 2 passed")
    failed = {line.split("::")[1].split()[0] for line in lines if line.startswith("FAILED")}
    assert failed == {"test_quick", "test_defect"}
    failures, named = done.stdout.split("passed on the second try")
    for name, told in (("defect", failures), ("unlucky-0", named)):
        assert f"failure 1 of {name}" in told  # its first one, not that of its second try
    assert (tmp_path / "quick").read_text() == "x"
    assert "crashed while running" in named
    assert f"with status {-signal.SIGKILL}" in named


FIXTURE = """
@pytest.fixture
def server():
    fail("server", 1)
@pytest.mark.slow
def test_server(server):
    pass
"""


def test_three_slow_tests_or_their_fixtures_are_tried_again_without_workers_too(tmp_path):
    done = run(tmp_path, UNLUCKY.format(count=2) + FIXTURE, "-n0", ci="1")
    assert done.returncode == 0, done.stdout
    named, closing = done.stdout.split("passed on the second try")[1].strip().rsplit("\n", 1)
    assert closing.startswith("3 passed")
    assert named.count("AssertionError: failure 1") == 3


def test_more_than_three_failures_of_slow_tests_are_not_tried_again(tmp_path):
    done = run(tmp_path, UNLUCKY.format(count=4), "-n0", ci="1")
    assert done.returncode == 1
    assert "4 failed" in done.stdout.strip().splitlines()[-1]
    assert {file.read_text() for file in tmp_path.glob("unlucky-*")} == {"x"}


INTERRUPTED_RUN = """
@pytest.mark.slow
def test_fails():
    assert not "a failure"
@pytest.mark.slow
def test_is_interrupted():
    raise KeyboardInterrupt
"""


def test_an_interrupted_run_shows_its_failures(tmp_path):
    done = run(tmp_path, INTERRUPTED_RUN, "-n0", ci="1")
    assert done.returncode == 2
    assert "a failure" in done.stdout
    assert "1 failed" in done.stdout.strip().splitlines()[-1]

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFTEST = Path(__file__).parents[1] / "conftest.py"


def run(folder, body, *words, ci, before=None):
    shutil.copy(CONFTEST, folder)
    (folder / "test_it.py").write_text("import pytest\n" + body)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, str(folder)]
    env = {"CI": ci, "PYTHONPATH": str(CONFTEST.parents[1])}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, preexec_fn=before)


SKIPPED = "def test_it():\n    pytest.skip('no browser')\n"


def test_a_skip_is_a_skip_on_a_persons_machine(tmp_path):
    done = run(tmp_path, SKIPPED, ci="")
    assert (done.returncode, "1 skipped" in done.stdout) == (0, True)


@pytest.mark.parametrize("body", [SKIPPED, "pytest.importorskip('no_such_module')\n"])
def test_a_skip_fails_in_ci_and_names_its_reason(tmp_path, body):
    done = run(tmp_path, body, ci="1")
    assert done.returncode != 0
    assert "skipped, which CI does not allow: " in done.stdout


def test_a_skip_that_is_right_everywhere_passes_in_ci(tmp_path):
    done = run(tmp_path, "def test_it():\n    pytest.skip('only on macOS')\n", ci="1")
    assert (done.returncode, "1 skipped" in done.stdout) == (0, True)


STARTED = "import subprocess\n{mark}def test_it():\n    {start}\n"
START = "subprocess.run(['true'])"
CAUGHT = "try: subprocess.run(['true'])\n    except Exception: pass"


@pytest.mark.parametrize("start", [START, CAUGHT])
def test_a_test_that_starts_a_process_fails_without_the_mark_for_slow_ones(tmp_path, start):
    done = run(tmp_path, STARTED.format(mark="", start=start), ci="")
    assert done.returncode == 1
    assert "a test without the mark `slow` starts a process: subprocess.Popen" in done.stdout


def test_a_slow_test_starts_processes(tmp_path):
    done = run(tmp_path, STARTED.format(mark="@pytest.mark.slow\n", start=START), ci="")
    assert (done.returncode, "1 passed" in done.stdout) == (0, True)


INTERRUPTED = """import os, signal
def test_it():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
"""


def test_an_interrupt_arrives_where_all_was_started_in_the_background(tmp_path):
    def as_a_shell_does():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    assert run(tmp_path, INTERRUPTED, ci="", before=as_a_shell_does).returncode == 0


@pytest.mark.parametrize(("words", "outcome"), [([], 2), (["-m", "not slow"], 5)])
def test_a_file_of_slow_tests_alone_is_loaded_only_where_they_run(tmp_path, words, outcome):
    assert (
        run(tmp_path, "pytestmark = pytest.mark.slow\nraise ImportError\n", *words, ci="").returncode
        == outcome
    )


ORDERED = """
import os, pathlib
@pytest.mark.parametrize("number", range(4))
def test_quick(number):
    note("quick")
@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_slow(number):
    note("slow")
def note(word):
    with open(os.environ["PYTEST_XDIST_WORKER"], "a") as file:
        print(word, os.environ["PYTEST_XDIST_WORKER_COUNT"], file=file)
"""


def test_every_worker_begins_with_slow_tests(tmp_path):
    done = run(tmp_path, ORDERED, "-n2", "--dist=worksteal", ci="")
    assert "8 passed" in done.stdout, done.stdout
    firsts = [(tmp_path / name).read_text().split()[0] for name in ("gw0", "gw1")]
    assert firsts == ["slow", "slow"]


def test_one_more_worker_than_cores_is_there_for_slow_tests_alone(tmp_path):
    for words, more in (((), 1), (("-m", "not slow"), 0)):
        done = run(tmp_path, ORDERED, "-nlogical", *words, ci="")
        assert done.returncode == 0, done.stdout
        assert (tmp_path / "gw0").read_text().split()[-1] == str(os.cpu_count() + more)


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


UNLUCKY = """
import pathlib
{mark}@pytest.mark.parametrize("number", range({count}))
def test_unlucky(number):
    tried = pathlib.Path(f"tried-{{number}}")
    tries = len(tried.read_text()) if tried.exists() else 0
    tried.write_text("x" * (tries + 1))
    assert tries >= {failures}, f"failure {{tries + 1}}"
"""
SLOW = "@pytest.mark.slow\n"


def unlucky(folder, *, count=1, failures=1, mark=SLOW, ci="1", words=("-n2",)):
    return run(folder, UNLUCKY.format(mark=mark, count=count, failures=failures), *words, ci=ci)


@pytest.mark.parametrize("words", [("-n2",), ("-n0",)])
def test_a_slow_test_that_fails_once_in_ci_is_tried_again_and_named(tmp_path, words):
    done = unlucky(tmp_path, count=3, words=words)
    assert done.returncode == 0, done.stdout
    named, closing = done.stdout.split("passed on the second try")[1].strip().rsplit("\n", 1)
    assert closing.startswith("3 passed")
    assert named.count("AssertionError: failure 1") == 3


def test_a_slow_test_that_fails_twice_fails_the_run_with_its_first_failure(tmp_path):
    done = unlucky(tmp_path, failures=2)
    assert done.returncode == 1
    assert "AssertionError: failure 1" in done.stdout
    assert "1 failed" in done.stdout.strip().splitlines()[-1]


def test_more_than_three_failures_of_slow_tests_are_not_tried_again(tmp_path):
    done = unlucky(tmp_path, count=4)
    assert done.returncode == 1
    assert "4 failed" in done.stdout.strip().splitlines()[-1]
    assert {file.read_text() for file in tmp_path.glob("tried-*")} == {"x"}


def test_a_failure_of_a_quick_test_is_final(tmp_path):
    assert unlucky(tmp_path, mark="").returncode == 1
    assert (tmp_path / "tried-0").read_text() == "x"


def test_no_test_is_repeated_on_a_persons_machine(tmp_path):
    assert unlucky(tmp_path, ci="").returncode == 1
    assert (tmp_path / "tried-0").read_text() == "x"


BROKEN_FIXTURE = """
import pathlib
@pytest.fixture
def server():
    is_first = not pathlib.Path("tried").exists()
    pathlib.Path("tried").touch()
    if is_first:
        raise OSError("the server did not start")
@pytest.mark.slow
def test_it(server):
    pass
"""


def test_a_slow_test_whose_fixture_fails_once_is_tried_again(tmp_path):
    done = run(tmp_path, BROKEN_FIXTURE, "-n2", ci="1")
    assert done.returncode == 0, done.stdout
    named, closing = done.stdout.split("passed on the second try")[1].strip().rsplit("\n", 1)
    assert "OSError: the server did not start" in named
    assert closing.startswith("1 passed")


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

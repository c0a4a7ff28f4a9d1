"""What holds for every test: settings of its own, no deadlines, no process of a fast one, no skip in CI."""

import asyncio
import atexit
import contextlib
import gc
import os
import re
import signal
import sys
from itertools import chain
from pathlib import Path

import hypothesis
import pytest

from tests import shared_service
from tests.second_tries import SecondTries, is_wanted

# A skip with one of these reasons is right even in CI.
RIGHT_SKIPS = ("only on macOS", "only on Windows")

# What the interpreter says of itself when a process is started.
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system")

IS_CI = bool(os.environ.get("CI"))  # where the same examples are tried every time
UNHURRIED = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
# Mutants are killed with 15 examples of a property; a hundred took minutes of each run.
hypothesis.settings.register_profile("unhurried", **UNHURRIED, derandomize=IS_CI, max_examples=40)
hypothesis.settings.register_profile("quick", **UNHURRIED, derandomize=IS_CI, max_examples=15)
hypothesis.settings.register_profile("long", **UNHURRIED, max_examples=20_000)  # by hand
hypothesis.settings.load_profile("unhurried")


def pytest_configure(config):
    """A test that sends an interrupt gets it, also where a shell has started all this in the background.

    Garbage is sought rarely: to look for it took a good part of the time of the fast tests.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(50_000, 20, 20)
    # nbformat loads jsonschema, which takes two seconds to build a grammar of IRIs from this.
    sys.modules.setdefault("rfc3987_syntax", None)
    if is_wanted(config):
        config.pluginmanager.register(SecondTries(config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Of slow tests two more than there are cores are at work: they mostly wait for processes."""
    return None if config.option.markexpr == "not slow" else (os.cpu_count() or 1) + 2


# Each of these mostly waits, or takes seconds to start in each worker that needs it.
SERVICES = ("slurm", "ray", "browser")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Each worker of xdist begins with slow tests: what is left at the end is short, and easily shared.

    The first ones begin with those of a service, which starts in one worker, and waits while others compute.
    """
    shares = getattr(config, "workerinput", {}).get("workercount", 1)
    if shares > 1:
        slow = [item for item in items if item.get_closest_marker("slow")]
        quick = [item for item in items if not item.get_closest_marker("slow")]
        slow = _with_a_service_first_in_each_share(slow, shares)
        items[:] = chain.from_iterable(
            tests[len(tests) * n // shares : len(tests) * (n + 1) // shares]
            for n in range(shares)
            for tests in (slow, quick)
        )


def _with_a_service_first_in_each_share(tests, shares):
    of_services = [[] for _ in range(shares)]
    others = []
    for test in tests:
        words = {*re.split(r"\W+", test.nodeid), *(mark.name for mark in test.iter_markers())}
        number = next((n for n, service in enumerate(SERVICES) if service in words), None)
        (others if number is None else of_services[number % shares]).append(test)
    ordered = []
    for n, firsts in enumerate(of_services, 1):
        ordered += firsts
        room = max(0, len(tests) * n // shares - len(ordered))
        ordered += others[:room]
        del others[:room]
    return ordered


WHOLLY_SLOW = re.compile(rb"^pytestmark = (?:\[)?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path, config):
    """Where no slow test is to run, a file of nothing else is not even loaded."""
    is_file = config.option.markexpr == "not slow" and collection_path.suffix == ".py"
    return True if is_file and WHOLLY_SLOW.search(collection_path.read_bytes()) else None


def pytest_collection_finish():
    """What is loaded stays until the end: the collector of garbage need not look at it again and again."""
    gc.freeze()


def pytest_sessionfinish():
    """No fixture's end: that may come with a fast test, which starts no process."""
    shared_service.stop_all()


def pytest_unconfigure():
    """At the exit each shell of IPython that a test made collects garbage: little is left to look at."""
    atexit.register(gc.freeze)


@pytest.fixture(autouse=True)
def _settings_of_its_own(tmp_path_factory, request, monkeypatch):
    """No test reads or changes what the person running it has configured or submitted."""
    for name in [name for name in os.environ if name.startswith("BATCHAI_")]:
        monkeypatch.delenv(name)
    folder = tmp_path_factory.getbasetemp() / f"settings-{abs(hash(request.node.nodeid)):x}"
    monkeypatch.setenv("BATCHAI_HOME", str(folder / "home"))
    monkeypatch.setenv("BATCHAI_CONFIG", str(folder / "config.yaml"))
    monkeypatch.setattr("batchai_magics.backends.base.backend_registry._selected", [])


class Starts:
    """The processes that a test without the mark `slow` has tried to start. None starts."""

    def __init__(self):
        self.is_forbidden, self.tried = False, []

    def watch(self, event, arguments):
        if self.is_forbidden and event in STARTS:
            self.tried.append(f"{event}{arguments[:2]}")
            raise RuntimeError(f"a test without the mark `slow` starts a process: {self.tried[-1]}")


starts = Starts()
sys.addaudithook(starts.watch)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    starts.is_forbidden = not item.get_closest_marker("slow")
    try:
        return (yield)
    finally:
        starts.is_forbidden = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with _without_loop_of_browser(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with _without_loop_of_browser(item):
        return (yield)


@contextlib.contextmanager
def _without_loop_of_browser(item):
    """Hides Playwright's event loop, which is current between its calls too, from tests without a browser."""
    loop = asyncio._get_running_loop()
    if loop is None or "chrome" in item.fixturenames:
        yield
        return
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _failed_if_it_started_something(_failed_if_skipped_in_ci((yield)))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _failed_if_skipped_in_ci((yield))


def _failed_if_skipped_in_ci(report):
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        reason = _reason(report)
        if not reason.endswith(RIGHT_SKIPS):
            report.outcome = "failed"
            report.longrepr = f"skipped, which CI does not allow: {reason}"
    return report


def _failed_if_it_started_something(report):
    tried, starts.tried = starts.tried, []
    if tried and report.passed:
        report.outcome = "failed"
        report.longrepr = f"a test without the mark `slow` starts a process: {', '.join(tried)}"
    return report


def _reason(report):
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


@pytest.fixture(scope="session")
def chrome():
    """One Chromium for all tests: a thread can drive only one."""
    from tests.widgets import lab

    path = next((path for path in lab.CHROMIUM if Path(path).exists()), None)
    if path is None:
        pytest.skip("no Chromium on this machine")
    with lab.chrome(path) as running:
        yield running

"""What holds for every test: settings of its own, no deadlines, no process of a fast one, no skip in CI."""

import os
import signal
import sys

import hypothesis
import pytest

# A skip with one of these reasons is right even in CI.
RIGHT_SKIPS = ("only on macOS", "only on Windows")

# What the interpreter says of itself when a process is started.
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system")

IS_CI = bool(os.environ.get("CI"))  # where the same examples are tried every time
hypothesis.settings.register_profile("unhurried", deadline=None, derandomize=IS_CI)
hypothesis.settings.register_profile("quick", deadline=None, derandomize=IS_CI, max_examples=15)
hypothesis.settings.register_profile("long", deadline=None, max_examples=20_000)  # by hand
hypothesis.settings.load_profile("unhurried")


def pytest_configure():
    """A test that sends an interrupt gets it, also where a shell has started all this in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _settings_of_its_own(tmp_path_factory, request, monkeypatch):
    """No test reads or changes what the person running it has configured or submitted."""
    for name in [name for name in os.environ if name.startswith("BATCHAI_")]:
        monkeypatch.delenv(name)
    folder = tmp_path_factory.getbasetemp() / f"settings-{abs(hash(request.node.nodeid)):x}"
    monkeypatch.setenv("BATCHAI_HOME", str(folder / "home"))
    monkeypatch.setenv("BATCHAI_CONFIG", str(folder / "config.yaml"))


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

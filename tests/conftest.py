"""What holds for every test: settings of its own, no deadlines, and in CI nothing is skipped."""

import os

import hypothesis
import pytest

# A skip with one of these reasons is right even in CI.
RIGHT_SKIPS = ("only on macOS", "only on Windows")

hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def _settings_of_its_own(tmp_path_factory, request, monkeypatch):
    """No test reads or changes what the person running it has configured or submitted."""
    for name in [name for name in os.environ if name.startswith("BATCHAI_")]:
        monkeypatch.delenv(name)
    folder = tmp_path_factory.getbasetemp() / f"settings-{abs(hash(request.node.nodeid)):x}"
    monkeypatch.setenv("BATCHAI_HOME", str(folder / "home"))
    monkeypatch.setenv("BATCHAI_CONFIG", str(folder / "config.yaml"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _failed_if_skipped_in_ci((yield))


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


def _reason(report):
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)

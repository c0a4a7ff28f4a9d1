"""In CI, a slow test that failed is run once more, alone, at the end: a real defect fails again.

So is any test during which a worker of xdist died. At most three tests of a run are tried again. Each one
that passes then is printed with its first failure, and is a defect to fix.
"""

import os
import subprocess
import sys
from copy import copy

import pytest

MAX_SECOND_TRIES = 3
IS_SECOND_TRY = "TESTS_ARE_SECOND_TRIES"  # set for the processes that run them
HEADING = "passed on the second try: a defect to fix"


def is_wanted(config):
    """Whether failed tests are tried again: in CI, in the process that has all reports."""
    environ = os.environ
    return bool(environ.get("CI")) and IS_SECOND_TRY not in environ and not hasattr(config, "workerinput")


class SecondTries:
    """A pytest plugin that withholds the failures of slow tests until the end of the run."""

    def __init__(self, config):
        self.config = config
        self.failures = {}  # of each failed slow test, its failed reports
        self.passed = []  # the first failures of tests that passed then

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        """Withholds a failure: with another outcome, nobody counts it."""
        if report.failed and "slow" in report.keywords and not hasattr(report, "is_final"):
            self.failures.setdefault(report.nodeid, []).append(copy(report))
            report.outcome = "withheld"

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, report):
        """Adds the exit status of the worker that died; its test counts as a slow one."""
        worker = report.node.gateway._io.popen
        worker.wait()  # its connection is closed
        report.longrepr += f", with status {worker.returncode}"
        report.keywords["slow"] = 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        return ("", "W", "WITHHELD") if report.outcome == "withheld" else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session):
        """When all tests have run: the second tries, then what they leave of the failures."""
        is_complete = False
        try:
            result = yield
            is_complete = True
            return result
        finally:
            self._settle(may_retry=is_complete and len(self.failures) <= MAX_SECOND_TRIES)

    def _settle(self, *, may_retry):
        """Logs each withheld failure, or that its test passes now."""
        for nodeid, reports in self.failures.items():
            if may_retry and self._passes(nodeid):
                self.passed.append(reports[0])
                passed = copy(reports[0])
                passed.when, passed.outcome, passed.longrepr, passed.sections = "call", "passed", None, []
                reports = [passed]
            for report in reports:
                report.is_final = True
                self.config.hook.pytest_runtest_logreport(report=report)

    def _passes(self, nodeid):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", nodeid]
        env = {**os.environ, IS_SECOND_TRY: "1"}
        return subprocess.run(command, cwd=self.config.rootpath, env=env, capture_output=True).returncode == 0

    def pytest_terminal_summary(self, terminalreporter):
        if not self.passed:
            return
        terminalreporter.section(HEADING)
        for report in self.passed:
            terminalreporter.section(report.nodeid, sep="_")
            report.toterminal(terminalreporter._tw)

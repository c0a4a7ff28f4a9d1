"""A server that goes while a page watches its job, and comes back: the page says so, and shows every byte."""

import os
import re
import signal

import pytest

from tests.patience import PATIENCE_S
from tests.ports import free_port
from tests.server.process import started
from tests.widgets.log_reader import missing
from tests.world import processes_of, until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

USE = """%env BATCHAI_TOKEN={token}
%env BATCHAI_UI=widget
%load_ext batchai_magics
%batchai use --backend arm --endpoint {url}"""
COUNTS = """%%batchai_job counts
import pathlib, time
number = 0
while not pathlib.Path("{go}").exists():
    print("number", number, flush=True)
    number += 1
    time.sleep(0.02)
"""


def log_of(home):
    """The log of the one job, on the machine of the server."""
    return next(home.rglob("stdouterr/stdout.txt"))


def test_a_view_says_that_its_server_is_gone_goes_on_when_it_is_back_and_shows_every_byte(lab, tmp_path):
    home, go, page, port = tmp_path / "home", tmp_path / "go", lab.page, free_port()
    with started(home, port=port) as server:
        lab.open("lost", USE.format(token=server.token, url=server.url), COUNTS.format(go=go))
        lab.run(0)
        lab.run(1)
        page.locator(".ba-row").filter(has_text=re.compile(r"^number \d{2,}$")).first.wait_for()
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(PATIENCE_S)
        gone = page.get_by_text("cannot be reached").first
        gone.wait_for()
        written = log_of(home).stat().st_size
        until(lambda: log_of(home).stat().st_size > written + 1000)  # the job knows nothing of it
        with started(home, port=port):
            gone.wait_for(state="detached")
            go.touch()
            page.get_by_text("succeeded").first.wait_for()
            assert missing(page, log_of(home)) == {}
            assert page.locator(".ba-view").count() == 1
            assert lab.errors == []
    until(lambda: not processes_of(home))

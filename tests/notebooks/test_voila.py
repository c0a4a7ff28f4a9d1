"""Voila shows a notebook as a page of its own: the live view works there."""

import contextlib
import os
import socket
import subprocess
import sys

import nbformat
import pytest
from playwright.sync_api import expect

from tests.patience import PATIENCE_S
from tests.ports import free_port
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

JOB = """%%batchai_job shown --nodes 2 --processes 2 --toolkit custom
import os, time
from batchai_magics import log
for step in range(1, 21):
    log(step=step, loss=1 / step)
while not os.path.exists({go!r}):
    time.sleep(0.05)
print("rank", os.environ["AZ_BATCHAI_TASK_INDEX"], "has ended")"""


@pytest.fixture
def address(tmp_path):
    """The address of Voila, which serves a notebook with a job."""
    job = JOB.format(go=str(tmp_path / "go"))
    cells = [nbformat.v4.new_code_cell(source) for source in ("%load_ext batchai_magics", job)]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    file = tmp_path / "page.ipynb"
    file.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata=metadata)))
    port = free_port()
    command = [sys.executable, "-m", "voila", file, "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1"]
    folders = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")}
    with (
        (tmp_path / "voila.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **folders}) as voila,
    ):
        try:
            until(lambda: answers(port))
            yield f"http://127.0.0.1:{port}/"
        finally:
            voila.terminate()
            voila.wait()


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_a_job_is_shown_live_and_after_its_end(address, chrome, tmp_path):
    page = chrome.new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    page.goto(address)
    view = page.locator(".ba-view")
    expect(view).to_contain_text("running", timeout=1000 * PATIENCE_S)
    (tmp_path / "go").touch()
    expect(view).to_contain_text("succeeded", timeout=1000 * PATIENCE_S)
    expect(view).to_contain_text("loss")
    page.close()

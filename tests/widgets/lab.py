"""A notebook in a real JupyterLab, driven from Python."""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE_S
from tests.ports import free_port
from tests.widgets import lab_scripts as scripts
from tests.world import until

CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
PATIENCE_MS = 1000 * PATIENCE_S
CLICK_MS = 5000  # for a button that may go before it is clicked
FOREIGN_ERRORS = (
    "Canceled future for",  # JupyterLab's own, when a kernel is shut down
    "reading 'schema'",  # Notebook 7's own, with settings that are new
    "'filebrowser:open-path' not registered",  # the same
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}
OPTIONS = [
    "--ip=127.0.0.1",
    "--no-browser",
    "--expose-app-in-browser",
    "--JupyterNotebookApp.expose_app_in_browser=True",
    "--ServerApp.port_retries=0",
    "--ServerApp.password=",
    "--ServerApp.disable_check_xsrf=True",
    "--ServerApp.allow_root=True",
    "--IdentityProvider.token=",
]


@dataclass(frozen=True)
class Server:
    address: str
    root: Path
    home: Path  # BATCHAI_HOME of its kernels


@contextlib.contextmanager
def server(folder):
    """A JupyterLab whose settings, kernels and notebooks are all below `folder`."""
    for name, values in SETTINGS.items():
        file = folder / "settings" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    root = folder / "root"
    root.mkdir(exist_ok=True)
    port = free_port()
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--port={port}", f"--ServerApp.root_dir={root}"]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=_environment(folder), stdout=log, stderr=log, cwd=root)
        try:
            _wait_until_up(f"http://127.0.0.1:{port}/api", process, folder / "server.log")
            yield Server(f"http://127.0.0.1:{port}", root, folder / "home")
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def confirm(page, ask, yes):
    """Clicks on a button that asks back, and on the answer; anew where the question has lapsed in between."""
    from playwright.sync_api import TimeoutError

    answer = page.locator("button", has_text=yes)
    answer.evaluate(scripts.NOTE_CLICK)

    def is_answered():
        with contextlib.suppress(TimeoutError):
            if not answer.is_visible():
                page.get_by_role("button", name=ask).click(timeout=CLICK_MS)
            answer.click(timeout=CLICK_MS)
        return answer.get_attribute("data-clicked")

    until(is_answered)


@contextlib.contextmanager
def chrome(path):
    """A headless Chromium."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Lab:
    """A page with a notebook. JupyterLab stays in it from one notebook to the next."""

    folder = "doc/tree"

    def __init__(self, page, server):
        self.page = page
        self.address = server.address
        self.root = server.root
        self.home = server.home
        self.path = None
        self.errors = []
        page.on("pageerror", self._on_error)
        page.set_default_timeout(PATIENCE_MS)

    def open(self, name, *cells):
        """Makes a notebook of these cells and opens it, its kernel ready."""
        self.open_file(name, notebook(cells))

    def open_file(self, name, content=None):
        """Opens a notebook as it is, or as `content` says."""
        self.path = self.root / f"{name}.ipynb"
        if content is not None:
            self.path.write_text(json.dumps(content))
        self.errors.clear()
        if self.page.url.startswith(self.address) and self.page.evaluate("() => !!window.jupyterapp"):
            self._wait_until_ready()
        else:
            self.reload()

    def reload(self):
        """Loads the page anew, with the notebook as it was saved."""
        self.page.goto(f"{self.address}/{self.folder}/{self.path.name}?reset", wait_until="domcontentloaded")
        self.page.wait_for_function(scripts.IS_OPEN, arg=self.path.name)
        self._wait_until_ready()

    def reload_views(self, count=1):
        """Loads the page anew, and waits until it has restored its views.

        JupyterLab looks for a model for two seconds, and once only where its page has no time. Then the
        notebook is opened once more, in a page that has loaded all it needs.
        """
        view, none = self.page.locator(".ba-view"), self.page.get_by_text("model not found")

        def is_restored():
            view.or_(none).nth(count - 1).wait_for(state="attached")
            has_given_up = none.count() > 0
            if has_given_up:
                self.close_notebook()
                self._wait_until_ready()
            return not has_given_up

        self.reload()
        until(is_restored)

    def close(self):
        """Closes the notebook, without saving it, shuts down all kernels and makes the page light again."""
        self.close_notebook()
        self.shut_down()
        if self.page.evaluate("() => document.body.dataset.jpThemeLight") == "false":
            self.theme("JupyterLab Light")

    def close_notebook(self):
        self.page.evaluate(scripts.CLOSE_ALL)

    def command(self, name):
        """Has JupyterLab carry out a command."""
        self.page.evaluate(scripts.COMMAND, name)
        self.page.wait_for_function("() => window.batchaiCommanded")

    def run(self, index, *, wait=True):
        """Runs a cell by its index."""
        self.page.evaluate(scripts.RUN_CELL, index)
        if wait:
            self.page.wait_for_function(scripts.IS_DONE, arg=index)

    def write(self, index, text):
        """Puts a text into a cell."""
        self.page.evaluate(scripts.SET_SOURCE, [index, text])

    def text(self, index):
        """What a cell has printed, once there is any of it: the page draws it after the cell has ended."""
        output = self.page.locator(".jp-CodeCell").nth(index).locator(".jp-OutputArea")
        return until(lambda: output.inner_text().strip())

    def clear(self, index):
        """Takes a cell's outputs away."""
        self.page.evaluate(scripts.CLEAR, index)

    @contextlib.contextmanager
    def out_of_sight(self, index):
        """Has a cell take no room, as one that was scrolled away; what it drew last is drawn by then."""
        self.page.evaluate(scripts.HIDE, [index, True])
        yield
        self.page.evaluate(scripts.HIDE, [index, False])

    def restart_kernel(self):
        self.page.evaluate(scripts.RESTART_KERNEL)
        self.page.wait_for_function("() => window.batchaiRestarted")

    def theme(self, name):
        self.page.evaluate(
            "(name) => { window.jupyterapp.commands.execute('apputils:change-theme', {theme: name}); }", name
        )
        is_light = "true" if "Light" in name else "false"
        self.page.wait_for_selector(f'body[data-jp-theme-light="{is_light}"]', state="attached")
        self.page.wait_for_function(scripts.IS_SHOWN)

    def save(self):
        """Saves the notebook and returns what is in the file."""
        self.command("docmanager:save")
        return json.loads(self.path.read_text())

    def shut_down(self):
        with urllib.request.urlopen(f"{self.address}/api/kernels") as answer:
            kernels = json.load(answer)
        for kernel in kernels:
            request = urllib.request.Request(f"{self.address}/api/kernels/{kernel['id']}", method="DELETE")
            urllib.request.urlopen(request).close()

    def _wait_until_ready(self):
        self.page.evaluate(scripts.READY, self.path.name)
        self.page.wait_for_function(scripts.IS_READY, arg=self.path.name)

    def _on_error(self, error):
        if not any(words in str(error) for words in FOREIGN_ERRORS):
            self.errors.append(str(error))


class Notebook7(Lab):
    """A page of Notebook 7, which shows one notebook and no other."""

    folder = "notebooks"

    def open(self, name, *cells):
        """Makes a notebook of these cells and opens it, its kernel ready."""
        self.page.goto("about:blank")
        super().open(name, *cells)


def notebook(cells):
    return {
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{i}",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": source,
            }
            for i, source in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _environment(folder):
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    return {
        **os.environ,
        **{name: str(folder / name.lower()) for name in names},
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "BATCHAI_HOME": str(folder / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def _wait_until_up(url, process, log):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")

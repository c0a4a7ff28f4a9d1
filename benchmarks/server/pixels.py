"""How soon a line is in the page: over the backend `arm` and a server of this machine, against `local`.

A browser looks at a JupyterLab for each; 20 lines a second for 15 s carry the times at which they were
written. Takes two minutes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks.browser.seen import SLOW, seen
from benchmarks.browser.ways import OURS
from benchmarks.row import Row, table
from benchmarks.server.running import running
from tests.widgets import lab as jupyter


def rows() -> Iterator[Row]:
    """The median and the 95th percentile; nothing where there is no Chromium."""
    chromium = next((path for path in jupyter.CHROMIUM if Path(path).exists()), None)
    if chromium is None:
        print("Nothing is measured: no Chromium.", file=sys.stderr)
        return
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        running(Path(folder) / "home") as server,
        jupyter.chrome(chromium) as browser,
    ):
        url = f"http://127.0.0.1:{server.port}"
        over = {"BATCHAI_BACKEND": "arm", "BATCHAI_ENDPOINT": url, "BATCHAI_TOKEN": server.token}
        far, near = (
            delays_ms(browser, Path(folder) / name, env) for name, env in (("far", over), ("near", {}))
        )
    for title, ours, local in zip(("median", "p95"), far, near, strict=True):
        yield Row(f"arm: a line -> page, {title}", ours, "local", local, "ms")


def delays_ms(browser: Browser, folder: Path, env: Mapping[str, str]) -> tuple[float, float]:
    """The median and the 95th percentile of what a notebook in that environment sees."""
    folder.mkdir()
    with environment(env), jupyter.server(folder) as lab:
        watched = seen(browser, lab, OURS, SLOW)
    return watched.delay_ms(0.5)[0], watched.delay_ms(0.95)[0]


@contextlib.contextmanager
def environment(more: Mapping[str, str]) -> Iterator[None]:
    """Within it the processes that are started have these variables."""
    os.environ.update(more)
    try:
        yield
    finally:
        for name in more:
            del os.environ[name]


if __name__ == "__main__":
    print(table(rows()))

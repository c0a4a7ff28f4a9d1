"""An upload whose server is killed goes on with the next one, and is whole or not there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
from pathlib import Path

import pytest

from batchai_magics.backends.base import Copy
from batchai_magics.errors import NotFoundError
from tests.patience import PATIENCE_S
from tests.server.process import started
from tests.server.running import connected

pytestmark = pytest.mark.slow
PIECE = 4 << 20


def test_an_upload_goes_on_where_the_killed_server_had_it(tmp_path: Path) -> None:
    home, data = tmp_path / "home", os.urandom(2 * PIECE + 5)
    with started(home) as server, contextlib.closing(connected(server.url, server.token)) as first:
        first.storage.make("data")
        first.storage.begin("data", "model.bin", len(data))
        first.storage.write("data", "model.bin", 0, data[:PIECE])
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(PATIENCE_S)
    with started(home) as server, contextlib.closing(connected(server.url, server.token)) as second:
        with pytest.raises(NotFoundError):
            second.storage.show("data", "model.bin")
        assert second.storage.begin("data", "model.bin", len(data)) == PIECE
        here = tmp_path / "model.bin"
        here.write_bytes(data)
        assert sum(second.storage.send("data", [Copy(here, "model.bin", len(data))])) == len(data)
        assert second.storage.digest("data", "model.bin") == hashlib.sha256(data).hexdigest()
        assert [file.path for file in second.storage.list("data")] == ["model.bin"]

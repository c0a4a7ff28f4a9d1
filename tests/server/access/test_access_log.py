"""The access log: what is in it, and how it is rotated."""

from __future__ import annotations

import json
from pathlib import Path

from batchai_magics.server.http.request_telemetry import MAX_LOG_FILES, AccessLog


def test_a_log_that_is_large_makes_room_for_another_and_the_oldest_goes(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "access.log", largest=100)
    for number in range(50):
        log.record("PUT", f"/{number}", 200, {})
    log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == MAX_LOG_FILES + 1
    assert all(file.stat().st_size < 300 for file in files)
    assert json.loads((tmp_path / "access.log").read_text().splitlines()[-1])["path"] == "/49"


def test_reading_is_not_written_down_but_who_is_not_let_in_is(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "access.log")
    for method, status in (("GET", 200), ("GET", 404), ("GET", 401), ("DELETE", 404)):
        log.record(method, "/x", status, {})
    for status in (200, 403):
        log.record("POST", "/x", status, {}, is_read=True)
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    written = [(line["method"], line["status"]) for line in lines]
    assert written == [("GET", 401), ("DELETE", 404), ("POST", 403)]

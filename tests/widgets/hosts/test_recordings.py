"""Recordings of what a view was sent: whole files, secrets masked, bounded."""

import base64
import errno
import gzip
import json
import os
import threading

import pytest

from batchai_magics.errors import StorageError, UsageError
from batchai_magics.jobs.job_handle import Job, record_job
from batchai_magics.models.secret_masking import SecretMask
from batchai_magics.widgets.hosts import recording_file
from batchai_magics.widgets.hosts.opened_pages import export_html, open_recording
from batchai_magics.widgets.hosts.recorder import MaskedSource
from tests.patience import PATIENCE_S
from tests.widgets.scripted_job import JOB, step_line
from tests.world import until

KEY = "sk-abcdefghijklmnopqrstuvwx"
# Each line has its time once it is in the log: the next one's is later by as much as is waited then.
SLOW_STEPS = """
import os, time
from pathlib import Path
log = Path(os.environ["AZ_BATCHAI_STDOUTERR_DIR"], "stdout.txt")
for i in range(1, 5):
    print("step", i, "loss:", 1 / i, flush=True)
    while not (log.exists() and f"step {i} " in log.read_text()):
        time.sleep(0.01)
    time.sleep(0.5)
"""


def entries(path):
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def log_of(path):
    """The log bytes of a recording, in order."""
    found = b""
    for entry in entries(path):
        content = entry.get("content", {})
        buffers = [base64.b64decode(each) for each in entry.get("buffers", ())]
        if content.get("use"):
            buffers.pop()
        for part in reversed(content.get("logs", ())):
            if part["ranked"]:
                buffers.pop()
            if part["file"] == "stdout.txt":
                found += buffers[-1]
            buffers.pop()
    return found


def test_a_recording_has_states_log_and_end_with_their_times(backend, tmp_path):
    backend.write("begun\n")
    path = tmp_path / "run.batchai"
    recording = threading.Thread(target=Job(backend, JOB).record, args=(path,))
    recording.start()
    part = until(lambda: next(tmp_path.glob(".run.batchai-*"), None))
    assert not path.exists()
    backend.write("".join(step_line(step) for step in range(1, 9)))
    backend.finish()
    recording.join()
    header, *rest = entries(path)
    assert (header["format"], header["version"], header["name"]) == ("batchai-recording", 2, "resnet")
    states = [entry["state"]["facts"]["state"] for entry in rest if "state" in entry]
    assert (states[0], states[-1]) == ("running", "succeeded")
    assert [entry["t"] for entry in rest] == sorted(entry["t"] for entry in rest)
    assert log_of(path).startswith(b"begun\n[1,0]<stdout>:1\timages/sec")
    assert any(entry.get("content", {}).get("values") for entry in rest)
    assert next(entry["reply"] for entry in rest if "reply" in entry) == "failure"
    assert not part.exists()


@pytest.mark.slow
def test_a_run_that_has_ended_is_recorded_with_the_times_of_its_lines(world, tmp_path):
    job = world.submit("past --processes 2", SLOW_STEPS).wait(PATIENCE_S)
    rest = entries(job.record(tmp_path / "run.batchai"))[1:]
    states = [entry["state"]["facts"]["state"] for entry in rest if "state" in entry]
    assert (states[0], states[-1]) == ("running", "succeeded")
    times = [entry["t"] for entry in rest if entry.get("content", {}).get("values")]
    assert len(times) >= 4
    assert 1 < times[-1] - times[0] < rest[-1]["t"]
    assert log_of(tmp_path / "run.batchai").decode() == job.log()


def test_no_secret_is_in_a_recording(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("TEAM_TOKEN", "a-value-known-by-name")
    backend.write(f"key {KEY} and password='hunter22' and a-value-known-by-name\nopen line {KEY}")
    backend.finish()
    path = Job(backend, JOB).record(tmp_path / "run.batchai")
    log = log_of(path)
    assert log.startswith(b"key " + b"*" * len(KEY) + b" and password='********' and " + b"*" * 21 + b"\n")
    assert log.endswith(b"open line " + b"*" * len(KEY))
    text = gzip.decompress(path.read_bytes())
    assert not any(secret in text + log for secret in (KEY.encode(), b"hunter22", b"known-by-name"))


class Polls:
    """A source of log bytes as they come."""

    is_over = is_behind = False

    def __init__(self, backend):
        self.backend = backend
        self.end = 0

    def poll(self):
        from batchai_magics.backends.base import FileRef
        from batchai_magics.follow import LogBytes

        file = FileRef(JOB, "stdout.txt")
        chunk = self.backend.read(file, self.end)
        self.end = chunk.end
        return [LogBytes(file, chunk)]


def test_a_secret_that_comes_in_two_parts_is_masked(backend):
    source = MaskedSource(Polls(backend), SecretMask())
    backend.write(f"one\nkey {KEY[:10]}")
    first = source.poll()[0].chunk
    backend.write(f"{KEY[10:]}\n")
    second = source.poll()[0].chunk
    assert (first.data, second.offset) == (b"one\n", 4)
    assert second.data == b"key " + b"*" * len(KEY) + b"\n"


def test_a_recording_is_bounded_and_has_the_end_nevertheless(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(recording_file, "MAX_BYTES", 5000)
    path = tmp_path / "run.batchai"
    recording = threading.Thread(target=Job(backend, JOB).record, args=(path,))
    recording.start()
    until(lambda: next(tmp_path.glob(".run.batchai-*"), None))
    for _ in range(20):
        backend.write("x" * 20_000 + "\n")
    backend.finish()
    recording.join()
    assert len(gzip.decompress(path.read_bytes())) < 400_000
    assert entries(path)[-1]["t"] >= 0
    assert [entry["state"]["facts"]["state"] for entry in entries(path) if "state" in entry][
        -1
    ] == "succeeded"


def test_a_report_has_versions_and_settings_without_secrets(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("BATCHAI_TOKEN", "secret-of-the-server")
    monkeypatch.setenv("BATCHAI_UI", "html")
    backend.finish()
    path = record_job(Job(backend, JOB), tmp_path / "report.batchai", is_report=True)
    header = entries(path)[0]
    assert header["settings"]["BATCHAI_TOKEN"] == "***"
    assert header["settings"]["BATCHAI_UI"] == "html"
    assert {"python", "platform", "packages", "report"} <= set(header)
    assert b"secret-of-the-server" not in gzip.decompress(path.read_bytes())


def test_what_is_no_recording_is_refused_before_it_is_served(tmp_path):
    (tmp_path / "text").write_text("hello")
    with gzip.open(tmp_path / "later", "wt") as file:
        file.write('{"format": "batchai-recording", "version": 99}\n')
    with gzip.open(tmp_path / "nameless", "wt") as file:
        file.write('{"format": "batchai-recording", "version": 2}\n')
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a recording of a job"):
        open_recording(tmp_path / "text")
    with pytest.raises(UsageError, match="has no name of a job"):
        export_html(tmp_path / "nameless", tmp_path / "page.html")
    with pytest.raises(StorageError, match="not a regular file"):
        open_recording(tmp_path / "pipe")
    with pytest.raises(UsageError, match="version 99, not 2"):
        open_recording(tmp_path / "later")
    with pytest.raises(StorageError, match="No such file"):
        open_recording(tmp_path / "missing")


def test_a_file_that_cannot_be_written_is_said_at_once(backend, tmp_path):
    with pytest.raises(StorageError, match="cannot write"):
        Job(backend, JOB).record(tmp_path / "missing" / "run.batchai")


def test_a_recording_on_a_full_disk_ends_with_the_reason_before_the_job_does(backend, tmp_path, monkeypatch):
    written = []

    def write(file, data, own=gzip.GzipFile.write):
        written.append(data)
        if len(written) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return own(file, data)

    monkeypatch.setattr(gzip.GzipFile, "write", write)
    backend.write("begun\n")
    with pytest.raises(StorageError, match=r"cannot write .*: No space left on device"):
        Job(backend, JOB).record(tmp_path / "run.batchai")
    assert not list(tmp_path.glob("*run.batchai*"))

"""What `job wait` tells of a job that it has not seen before."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from batchai_magics.commands.handlers import job_wait
from batchai_magics.commands.output.command_progress import Message
from batchai_magics.models.job_execution import Attempt
from tests.widgets.scripted_job import JOB, ScriptedBackend

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_all_earlier_attempts_are_listed_and_each_later_one_once(tmp_path) -> None:
    backend = ScriptedBackend(tmp_path)
    shown = backend.show(JOB)
    attempts = tuple(Attempt(number, ("n",), NOW, NOW, f"reason {number}") for number in range(1, 6))
    backend.finish()
    ended = replace(backend.job, attempts=attempts)
    stages = iter([replace(shown, attempts=attempts[:3]), replace(shown, attempts=attempts)])
    backend.show = lambda id: next(stages, ended)
    said = [part.text for part in job_wait.watch_job(backend, JOB) if isinstance(part, Message)]
    restarts = [text for text in said if text.startswith("Job was restarted")]
    assert restarts == [f"Job was restarted: {each.sentence}" for each in attempts[:4]]

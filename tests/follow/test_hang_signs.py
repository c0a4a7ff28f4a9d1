"""What warns of a job that hangs."""

from batchai_magics.follow.hang_signs import hang_signs
from batchai_magics.models.states import ExecutionState
from tests.widgets.scripted_job import JOB, START, ScriptedBackend

TRACE = "Traceback (most recent call last):\n  File \"/job/train.py\", line 3, in load\nKeyError: 'x'\n"


def signs(backend, limit_s=600.0, *, after_s):
    return hang_signs(backend, backend.show(JOB), limit_s, now=START.timestamp() + after_s)


def test_a_job_that_prints_nothing_is_warned_of_with_what_to_do(tmp_path):
    backend = ScriptedBackend(tmp_path)
    assert signs(backend, after_s=599) == ()
    (sign,) = signs(backend, after_s=660)
    assert sign == "Nothing was printed for 11 min: `batchai stacks resnet` shows where each rank is."
    assert signs(backend, 0.0, after_s=660) == ()


def test_a_traceback_of_a_job_that_goes_on_is_a_warning(tmp_path):
    backend = ScriptedBackend(tmp_path)
    backend.write(TRACE, "stderr.txt")
    (sign,) = signs(backend, after_s=1)
    assert sign == "stderr has a traceback, and the job goes on: /job/train.py:3: KeyError: 'x'"
    backend.finish(ExecutionState.SUCCEEDED)
    assert signs(backend, after_s=1) == ()

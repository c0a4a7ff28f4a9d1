"""What warns of a job that hangs."""

from batchai_magics.follow.hang_signs import hang_signs
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.telemetry_records import MachineUse, RankUse, Sample, TelemetryRecord
from tests.widgets.scripted_job import JOB, START, ScriptedBackend

TRACE = "Traceback (most recent call last):\n  File \"/job/train.py\", line 3, in load\nKeyError: 'x'\n"


def signs(backend, limit_s=600.0, *, after_s):
    return hang_signs(backend, backend.show(JOB), limit_s, now=START.timestamp() + after_s)


class Used:
    """The telemetry of a job with one rank, which uses a part of a core."""

    def __init__(self, cores):
        self.cores = cores

    def read(self, id, *, after=0.0):
        ranks = [RankUse(0, self.cores * t, 1, 0, 0, 0.0, 0, 1) for t in range(700)]
        samples = [Sample(START.timestamp() + t, "m", (rank,), MachineUse()) for t, rank in enumerate(ranks)]
        return TelemetryRecord({0: "n0"}, tuple(each for each in samples if each.time > after))


def test_a_job_that_is_silent_and_idle_is_warned_of_with_what_to_do(tmp_path):
    backend = ScriptedBackend(tmp_path)
    backend.telemetry = Used(0.01)
    assert signs(backend, after_s=599) == ()
    (sign,) = signs(backend, after_s=660)
    assert sign == (
        "Nothing was printed for 11 min, and the processors are idle: "
        "`batchai stacks resnet` shows where each rank is, `batchai profile resnet` where its time goes."
    )
    assert signs(backend, 0.0, after_s=660) == ()


def test_silence_alone_is_no_warning(tmp_path):
    backend = ScriptedBackend(tmp_path)
    assert signs(backend, after_s=660) == ()  # what it uses is not known
    backend.telemetry = Used(0.9)
    assert signs(backend, after_s=660) == ()


def test_a_traceback_of_a_job_that_goes_on_is_a_warning(tmp_path):
    backend = ScriptedBackend(tmp_path)
    backend.write(TRACE, "stderr.txt")
    (sign,) = signs(backend, after_s=1)
    assert sign == "stderr has a traceback, and the job goes on: /job/train.py:3: KeyError: 'x'"
    backend.finish(ExecutionState.SUCCEEDED)
    assert signs(backend, after_s=1) == ()

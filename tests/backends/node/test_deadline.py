"""The deadline of an attempt: what it becomes, and how long nobody need look at it."""

from __future__ import annotations

from batchai_magics.backends.node.launcher import Deadline
from batchai_magics.backends.node.outcome import stopped
from batchai_magics.launch.plan import Limits


def test_a_deadline_that_is_shortened_tells_what_shortened_it() -> None:
    deadline = Deadline(Limits(wall_s=100.0, warn_s=10.0))
    assert (deadline.outcome, deadline.is_warning_due) == (None, False)
    deadline.shorten(5.0, stopped("requeue", "preempted"))
    deadline.shorten(1000.0, stopped("requeue", "preempted"))
    assert (deadline.outcome, deadline.is_warning_due) == (None, True)
    deadline.shorten(0.0, stopped("requeue", "preempted"))
    assert deadline.outcome == stopped("requeue", "preempted")


def test_a_deadline_waits_no_longer_than_until_the_warning() -> None:
    assert Deadline(Limits(wall_s=10.0, warn_s=9.9)).patience_s <= 0.1
    assert Deadline(Limits(wall_s=10.0)).patience_s <= 1.0

"""Which rank differs, told from what faulthandler writes."""

import json
import signal
import subprocess
import sys

import pytest

from batchai_magics.backends.node import stack_dumps
from batchai_magics.records.job_error import SourcePaths
from batchai_magics.records.rank_stacks import Frame, RankStack, RankStacks, frames_of, parse
from tests.world import until

TEXT = """Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f0000000002 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/c10d.py", line 99 in all_reduce
  File "/job/train.py", line 20 in step
  File "/job/train.py", line 31 in <module>
  File "/nodes/run_script.py", line 53 in _run
  File "/nodes/run_script.py", line 24 in main
"""


def rank(number, *places):
    return RankStack(number, "n0", tuple(Frame("/job/train.py", line, name) for name, line in places))


def stacks(*ranks):
    return RankStacks("train", ranks)


def test_frames_are_those_of_the_main_thread_without_the_launcher():
    assert [frame.function for frame in frames_of(TEXT)] == ["all_reduce", "step", "<module>"]


def test_the_frame_of_a_rank_is_in_code_of_the_user():
    told = parse(json.dumps({"rank": 3, "node": "n1", "text": TEXT}).encode())
    assert str(told.user_frame) == "step (train.py:20)"


def test_frames_in_the_copy_of_a_job_have_the_paths_of_the_user():
    text = "Current thread 0x02 (most recent call first):\n"
    text += '  File "/home/.batchai/scripts/default/train/ea4b/src/model.py", line 3 in forward\n'
    text += '  File "/home/.batchai/scripts/default/train/ea4b/run_cell.py", line 9 in <module>\n'
    line = json.dumps({"rank": 0, "node": "n0", "text": text})
    told = RankStacks.of_lines("train", [line], SourcePaths(folder="ea4b"))
    assert "src/model.py:3 in forward" in str(told)
    assert "ea4b" not in str(told)
    assert told.ranks[0].user_frame == Frame("src/model.py", 3, "forward")


def test_the_rank_in_other_functions_differs():
    told = stacks(rank(0, ("step", 20)), rank(1, ("load", 7)), rank(2, ("step", 20)))
    assert told.different == (1,)
    assert told.sentence == (
        "Rank 1 differs from the others: "
        "rank 1 is in load (train.py:7); ranks 0, 2 are in step (train.py:20)."
    )


def test_lines_tell_ranks_apart_only_in_the_same_functions():
    by_line = stacks(*(rank(n, ("step", 21 if n == 2 else 20)) for n in range(4)))
    by_function = stacks(rank(0, ("step", 20)), rank(1, ("step", 21)), rank(2, ("load", 7)))
    assert by_line.different == by_function.different == (2,)


def test_a_rank_at_the_same_line_of_its_own_code_does_not_differ():
    library = Frame("/venv/lib/python3.11/site-packages/torch/cuda.py", 5, "synchronize")
    own = (Frame("/job/train.py", 20, "step"), Frame("/job/train.py", 40, "main"))
    waits = RankStack(2, "n0", (library, *own))
    told = stacks(rank(0, ("step", 20)), rank(1, ("step", 20)), waits)
    assert told.different == ()
    assert told.sentence == "Ranks 0, 1, 2 are in step (train.py:20)."


def test_of_two_ranks_at_two_places_neither_is_the_odd_one():
    told = stacks(rank(0, ("step", 20)), rank(1, ("load", 7)))
    assert told.different == ()
    assert told.sentence.startswith("The ranks are at different places: ")


def test_a_rank_without_a_stack_differs_from_the_others():
    told = stacks(rank(0, ("step", 20)), RankStack(1, "n1"), rank(2, ("step", 20)))
    assert told.different == (1,)
    assert "Rank 1 on n1:\n  no Python process that can be asked" in str(told)


def test_the_text_cannot_steer_a_terminal():
    told = stacks(RankStack(0, "n0", (Frame("/job/\x1b[2J.py", 1, "f"),)))
    assert "\x1b" not in str(told)


def test_a_stopped_python_is_called_that():
    lines = [json.dumps({"rank": 0, "node": "n0", "text": TEXT, "stopped": False})]
    lines.append(json.dumps({"rank": 1, "node": "n0", "text": "", "stopped": True}))
    told = RankStacks.of_lines("train", lines)
    assert "rank 1 is stopped (by a signal or a debugger)" in told.sentence
    assert "its Python is stopped" in str(told)


@pytest.mark.slow
def test_a_process_that_was_stopped_is_seen_as_such():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not stack_dumps.is_stopped(child.pid)
    child.send_signal(signal.SIGSTOP)
    until(lambda: stack_dumps.is_stopped(child.pid))
    child.kill()
    child.communicate()

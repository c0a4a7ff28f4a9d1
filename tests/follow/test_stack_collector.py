"""What becomes of a profile if nodes are lost, silent or many."""

import json
import signal
import subprocess
import threading

import pytest

from batchai_magics.backends.base import CommandBytes, CommandEnd
from batchai_magics.errors import CapabilityError
from batchai_magics.follow.stack_collector import profile_of
from batchai_magics.models.cluster_spec import NodeStateCounts
from tests.patience import PATIENCE_S
from tests.records.test_rank_profile import LOAD, MAIN, told
from tests.widgets.scripted_job import ScriptedBackend
from tests.world import until


class ScriptedNodes:
    """Nodes whose ranks print what a test says; files are written by the real program."""

    def __init__(self):
        self.parts, self.written_on = {}, set()

    def execute(self, id, node_id, command, *, tick_s=0.0):
        if "os.rename" in command:
            self.written_on.add(node_id)
            yield CommandBytes(subprocess.run(["sh", "-c", command], check=True, capture_output=True).stdout)
        else:
            yield from self.parts[node_id]()
        yield CommandEnd(0)


@pytest.fixture
def backend(tmp_path):
    backend = ScriptedBackend(tmp_path / "scripted")
    backend.node_commands = ScriptedNodes()
    return backend


def line(rank, folder=""):
    return told(rank, ([MAIN, LOAD], True, 9), folder=str(folder)).encode() + b"\n"


def ticks():
    """A node that prints nothing more."""
    for _ in range(int(PATIENCE_S / 0.01)):
        yield CommandBytes(b"")
        threading.Event().wait(0.01)


def test_complete_lines_of_a_node_that_is_too_slow_count(backend):
    def slow():
        yield CommandBytes(line(0) + line(1)[:50])
        yield from ticks()

    backend.node_commands.parts = {"node-0": slow, "node-1": lambda: [CommandBytes(line(2))]}
    profile = profile_of(backend, backend.job, 1.0, timeout_s=0.0)
    assert [rank.rank for rank in profile.ranks] == [0, 2]
    assert "Node node-0 did not answer within 1 s." in profile.notes


def test_a_line_that_arrives_in_parts_is_read_and_a_cut_off_one_is_not(backend):
    cut = [CommandBytes(line(0)[:9]), CommandBytes(line(0)[9:] + line(1)[:-2])]
    backend.node_commands.parts = {"node-0": lambda: cut, "node-1": list}
    assert [rank.rank for rank in profile_of(backend, backend.job).ranks] == [0]


def test_ctrl_c_ends_the_sampling_on_all_nodes(backend):
    def interrupt():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    both, ended = threading.Barrier(2, action=interrupt, timeout=PATIENCE_S), []

    def sampled():
        both.wait()
        try:
            yield from ticks()
        except GeneratorExit:
            ended.append(True)

    backend.node_commands.parts = {"node-0": sampled, "node-1": sampled}
    with pytest.raises(KeyboardInterrupt):
        profile_of(backend, backend.job, 600.0)
    until(lambda: ended == [True, True])


def test_all_nodes_are_sampled_at_the_same_time(backend):
    backend.counts = NodeStateCounts(running_node_count=70)
    together = threading.Barrier(70, timeout=PATIENCE_S)

    def node(number):
        def sampled():
            together.wait()
            yield CommandBytes(line(number))

        return sampled

    backend.node_commands.parts = {f"node-{number}": node(number) for number in range(70)}
    assert len(profile_of(backend, backend.job).sampled) == 70


@pytest.mark.slow
def test_a_node_that_answers_writes_the_files(backend, tmp_path):
    def lost():
        raise CapabilityError("node node-0 is lost")

    backend.node_commands.parts = {
        "node-0": lost,
        "node-1": lambda: [CommandBytes(line(1, tmp_path))],
    }
    profile = profile_of(backend, backend.job)
    assert profile.notes == ("Node node-0 is lost.",)
    assert backend.node_commands.written_on == {"node-1"}
    assert all((tmp_path / file).read_text() for file in profile.files)
    assert json.loads((tmp_path / profile.files[1]).read_text())["profiles"][0]["name"].startswith("rank 1")


@pytest.mark.slow
def test_large_files_have_the_most_frequent_stacks(backend, tmp_path):
    stacks = [([("/job/train.py", number, "step")], False, 1) for number in range(2000)]
    many = told(0, *stacks, ([MAIN, LOAD], True, 9), folder=str(tmp_path)).encode() + b"\n"
    backend.node_commands.parts = {"node-0": lambda: [CommandBytes(many)], "node-1": list}
    profile = profile_of(backend, backend.job, max_file=20_000)
    svg, scope = ((tmp_path / file).read_text() for file in profile.files)
    assert max(len(svg), len(scope)) <= 20_000
    assert "load_batch" in svg
    assert "load_batch" in scope


def test_files_that_take_too_long_are_given_up(backend, tmp_path):
    backend.node_commands.parts = {"node-0": lambda: [CommandBytes(line(0, tmp_path))], "node-1": list}
    profile = profile_of(backend, backend.job, timeout_s=0.0)
    assert profile.files == ()
    assert profile.notes == (
        "The samples are not kept with the run: node node-0 did not write them within 0 s.",
    )

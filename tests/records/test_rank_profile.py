"""What ranks do in stacks that were sampled, which rank differs, and the samples as files."""

import json
from xml.etree import ElementTree

import pytest

from batchai_magics.models.secret_masking import SecretMask
from batchai_magics.records.flame_graph import flame_graph, speedscope
from batchai_magics.records.job_error import SourcePaths
from batchai_magics.records.rank_profile import Activity, RunProfile, activity_of
from batchai_magics.records.rank_stacks import Frame

LIBRARIES = "/venv/lib/python3.11/site-packages"
MAIN = ("/job/train.py", 40, "<module>")
STEP = ("/job/train.py", 20, "step")
LOAD = ("/job/train.py", 33, "load_batch")
REDUCE = ("/job/train.py", 12, "share")
CODE = {
    "/job/train.py:12": "total = comm.allreduce(mine)",
    "/job/train.py:20": "x = [i * i for i in range(9)]",
}


def library(path, line, function):
    return (f"{LIBRARIES}/{path}", line, function)


def doing(*calls, code="", is_idle=False):
    """The activity of a stack, outermost function first; `code` is the line of the innermost one."""
    frames = [Frame(*call) for call in reversed(calls)]
    return activity_of(frames, {**CODE, f"{frames[0].file}:{frames[0].line}": code}, is_idle=is_idle)


def told(rank, *stacks, code=CODE, **others):
    """A line about a rank; stacks are calls, outermost first, whether it was idle, and a count."""
    texts = [
        [
            "\n".join(
                ["Current thread", *(f'  File "{f}", line {n} in {name}' for f, n, name in reversed(calls))]
            ),
            idle,
            count,
        ]
        for calls, idle, count in stacks
    ]
    fields = {"rank": rank, "node": "n0", "way": "signal", "seconds": 10.0}
    fields |= {"stopped_s": 0.0, "silent_s": 0.0, "unfinished": False, "other": 0}
    return json.dumps({**fields, "folder": "", "stacks": texts, "code": code, **others})


def profile(*lines):
    return RunProfile.of_lines("train", lines)


LOADER = library("torch/utils/data/dataloader.py", 733, "__next__")
SELECT = ("/usr/lib/python3.11/selectors.py", 415, "select")
ITEM = ("/job/cats.py", 9, "__getitem__")
PAD = library("torch/nn/functional.py", 1, "pad")
ALL_REDUCE = library("torch/distributed/distributed_c10d.py", 2501, "all_reduce")
SHARDED = library("torch/distributed/fsdp/_runtime.py", 1, "forward")
SAVE = library("torch/serialization.py", 900, "save")
FIT = library("lightning/trainer.py", 1, "fit")
A, B, C, D, E = (
    Activity.CHECKPOINT,
    Activity.INPUT,
    Activity.COMMUNICATION,
    Activity.COMPUTATION,
    Activity.PYTHON,
)


@pytest.mark.parametrize(
    ("calls", "code", "activity"),
    [
        ([MAIN, SAVE, library("torch/storage.py", 3, "cpu")], "", A),
        ([MAIN, ("/job/train.py", 50, "save_checkpoint"), library("numpy/lib/format.py", 7, "write")], "", A),
        ([MAIN, ("/job/train.py", 51, "load_model")], "", A),
        ([MAIN, LOADER, SELECT], "", B),
        ([MAIN, LOADER, ITEM, PAD], "", B),
        ([MAIN, LOAD], "time.sleep(1)", B),
        ([MAIN], "for batch in train_loader:", B),
        ([MAIN, STEP], "rows = pandas.read_csv(path)", B),
        ([MAIN, STEP, ALL_REDUCE], "", C),
        ([MAIN, REDUCE], "total = comm.allreduce(mine)", C),
        ([MAIN, STEP], "world.Barrier()", C),
        ([MAIN, STEP], "requests = MPI.COMM_WORLD.isend(x, dest=1)", C),
        ([MAIN, STEP, library("horovod/torch/mpi_ops.py", 900, "synchronize")], "", C),
        ([MAIN, library("torch/_tensor.py", 522, "backward")], "", D),
        ([MAIN, SHARDED, library("torch/nn/linear.py", 1, "forward")], "", D),
        ([MAIN, STEP], "loss = model(x).sum().item()", D),
        ([MAIN, STEP], "y = x @ weights", D),
        ([MAIN, ("/job/net.py", 5, "forward")], "x = self.a(x)", D),
        ([MAIN, STEP], "x = [i * i for i in range(9)]", E),
        ([FIT, library("torch/optim/adam.py", 1, "step"), STEP], "x += 1", E),
    ],
)
def test_an_activity_is_recognised_by_its_functions_and_line(calls, code, activity):
    assert doing(*calls, code=code) is activity


@pytest.mark.parametrize(
    "wrapper", ["torch/utils/checkpoint.py", "deepspeed/runtime/activation_checkpointing/checkpointing.py"]
)
def test_activation_checkpointing_is_computation(wrapper):
    block = ("/job/net.py", 5, "forward")
    layer = library("torch/nn/modules/linear.py", 9, "forward")
    assert doing(MAIN, library(wrapper, 480, "checkpoint"), block, layer) is Activity.COMPUTATION


@pytest.mark.parametrize("folder", ["/mnt/datasets/run", "/home/me/transformers", "/home/me/PIL/torch"])
def test_folders_of_the_jobs_own_files_decide_nothing(folder):
    assert doing((f"{folder}/train.py", 3, "main"), code="x += 1") is Activity.PYTHON


@pytest.mark.parametrize(("name", "activity"), [("checkpointing.py", A), ("dataset.py", B)])
def test_names_of_the_jobs_own_files_decide(name, activity):
    assert doing(MAIN, (f"/home/me/{name}", 3, "main"), code="x += 1") is activity


@pytest.mark.parametrize(
    ("code", "is_idle", "activity"),
    [
        ("queue.get()", True, Activity.WAITING),
        ("time.sleep(1)", None, Activity.WAITING),
        ("process.communicate()", None, Activity.WAITING),
        ("count += 1", None, Activity.PYTHON),
        ("time.sleep(1)", False, Activity.PYTHON),  # it ran
    ],
)
def test_what_is_idle_waits_and_where_that_is_unknown_its_line_tells(code, is_idle, activity):
    assert doing(MAIN, STEP, code=code, is_idle=is_idle) is activity


def test_the_rank_that_waits_for_its_data_is_named_with_its_line_and_who_waits_for_it():
    slow = told(1, ([MAIN, LOAD], True, 61), ([MAIN, STEP], False, 39))
    others = [
        told(n, ([MAIN, REDUCE], False, 58), ([MAIN, STEP], False, 40), ([MAIN, LOAD], True, 2))
        for n in (0, 2, 3)
    ]
    run = profile(*others, slow)
    assert run.different == (1,)
    assert run.sentence == (
        "Rank 1 waits 61 % of the time for its data loader, at train.py:33, the others 2 %, which wait in "
        "communication (58 %). More loader workers, prefetching or faster storage may help."
    )
    assert run.ranks[1].shares[Activity.PYTHON] == pytest.approx(0.39)
    assert run.ranks[0].lines() == [("train.py:12", 0.58), ("train.py:20", 0.4), ("train.py:33", 0.02)]
    assert "train.py:12 58 %, train.py:20 40 %" in str(run)


def test_of_ranks_that_do_the_same_the_largest_share_is_told():
    run = profile(*(told(n, ([MAIN, REDUCE], False, 70), ([MAIN, STEP], False, 30)) for n in range(2)))
    assert run.different == ()
    assert run.sentence.startswith(
        "Each rank spends 70 % of the time in communication, at train.py:12. Larger"
    )


def test_several_ranks_that_differ_are_named_together():
    slow = [told(n, ([MAIN, LOAD], True, 50), ([MAIN, STEP], False, 50)) for n in (1, 3)]
    run = profile(*slow, *(told(n, ([MAIN, STEP], False, 100)) for n in (0, 2)))
    assert run.sentence.startswith(
        "Ranks 1, 3 wait 50 % of the time for their data loader, at train.py:33, the"
    )


def test_ranks_without_samples_are_told_first_with_their_reason():
    run = profile(
        *(told(rank, ([MAIN, STEP], False, 5)) for rank in (0, 4, 5, 6)),
        told(1),
        told(2, stopped_s=10.0),
        told(3, silent_s=10.0),
        told(7, unfinished=True),
    )
    assert run.sentence.startswith(
        "Rank 2 was stopped for 10 of 10 s, by a signal or a debugger; rank 3 hung for 10 of 10 s and did "
        "not answer; rank 1 runs no Python that can be sampled; rank 7 was not sampled: py-spy did not "
        "finish. Each sampled rank spends 100 % of the time in Python code"
    )
    assert run.different == (2, 3)


def test_a_rank_that_hung_for_most_of_the_time_is_named_though_it_has_samples():
    others = [told(rank, ([MAIN, STEP], False, 100)) for rank in (0, 1)]
    run = profile(*others, told(2, ([MAIN, STEP], False, 20), silent_s=8.0))
    assert run.sentence.startswith("Rank 2 hung for 8 of 10 s and did not answer. Each rank spends 100 %")
    assert run.different == (2,)


def test_a_rank_that_answers_a_little_late_is_not_named():
    run = profile(told(0, ([MAIN, STEP], False, 99), silent_s=0.1))
    assert run.sentence.startswith("Rank 0 spends")
    assert run.different == ()


def test_sentences_count_the_ranks_that_they_name():
    wait = ([("/job/train.py", 21, "step")], True, 90)
    work, share = ([MAIN, STEP], False, 100), ([MAIN, REDUCE], False, 100)
    several = profile(*(told(n, wait) for n in (0, 2)), *(told(n, work) for n in (1, 3, 4))).sentence
    assert several.startswith("Ranks 0, 2 wait 100 %")
    assert several.endswith("the others 0 %. Look at what they wait for there.")
    two = profile(told(0, wait), told(1, share)).sentence
    assert "the other 0 %, which waits in communication (100 %). Look at what it waits for there." in two
    assert "ranks 1, 2 run no Python that" in profile(told(1), told(2)).sentence
    stopped = [told(n, stopped_s=10.0) for n in (1, 2)]
    assert profile(told(0, work), *stopped).sentence.startswith("Ranks 1, 2 were stopped for 10 of")


def test_a_program_without_python_says_so():
    run = profile(told(0), told(1))
    assert run.sentence == "No rank of train could be sampled: ranks 0, 1 run no Python that can be sampled."
    assert str(RunProfile("train", ())).startswith("No process of train was found.")


def test_lines_in_the_copy_of_a_job_have_the_paths_of_the_user():
    cell = ("/home/.batchai/scripts/train/ea4b/train.py", 9, "<module>")
    model = ("/home/.batchai/scripts/train/ea4b/src/model.py", 3, "work")
    lines = [told(0, ([cell], False, 1), ([cell, model], False, 3), code={})]
    run = RunProfile.of_lines("train", lines, SourcePaths(folder="ea4b", script="train.py"))
    assert [place for place, _ in run.ranks[0].lines()] == ["src/model.py:3", "cell line 10"]
    assert "ea4b" not in json.dumps(run.to_data())


def test_secrets_are_masked_and_control_characters_removed():
    call = ("/job/hf_abcdefghijklmnopqrstuv/\x1b[2J.py", 1, "f")
    run = RunProfile.of_lines("train", [told(0, ([call], False, 1))], mask=SecretMask())
    assert "hf_abc" not in str(run.ranks[0].samples)
    assert "\x1b" not in str(run)


def test_samples_of_rarer_stacks_are_counted():
    run = profile(told(0, ([MAIN, STEP], False, 5), other=1200), told(1, other=34))
    assert "1,234 more had rarer stacks, which are left out." in run.remarks


SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def run():
    ranks = (told(n, ([MAIN, LOAD], True, 60), ([MAIN, STEP], False, 40), way="signal") for n in range(2))
    return RunProfile.of_lines("a <train> & co", ranks)


def test_speedscope_has_a_profile_for_each_rank_whose_weights_are_seconds(run):
    data = json.loads(speedscope(run))
    frames = data["shared"]["frames"]
    assert [each["name"] for each in data["profiles"]] == ["rank 0 (n0)", "rank 1 (n0)"]
    (first, _) = data["profiles"]
    assert first["weights"] == [6.0, 4.0]
    assert first["endValue"] == sum(first["weights"])
    assert [[frames[at]["name"] for at in stack] for stack in first["samples"]] == [
        ["<module>", "load_batch"],
        ["<module>", "step"],
    ]
    assert frames[0] == {"name": "<module>", "file": "/job/train.py", "line": 40}


def test_the_flame_graph_is_as_wide_as_the_time_and_has_no_script(run):
    text = flame_graph(run)
    root = ElementTree.fromstring(text)
    boxes = {
        group.find(f"{SVG}title").text: float(group.find(f"{SVG}rect").get("width"))
        for group in root.iter(f"{SVG}g")
    }
    whole = boxes["a <train> & co: 100.0% of the time, 20.00 s"]
    loads = [width for title, width in boxes.items() if title.startswith("load_batch (train.py:33): 30.0%")]
    assert loads == [pytest.approx(0.3 * whole, abs=1)]  # titles are equal in both ranks
    assert "script" not in text
    assert "href" not in text


def test_a_profile_of_nothing_is_a_picture_too():
    assert ElementTree.fromstring(flame_graph(RunProfile("train", ()))).tag == f"{SVG}svg"

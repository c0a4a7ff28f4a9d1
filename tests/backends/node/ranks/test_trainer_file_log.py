"""What trainers log to files while a run is in progress, as lines of a log."""

import json
import os

import pytest

from batchai_magics.backends.node.ranks.trainer_file_log import TrainerFileLog
from batchai_magics.launch.plan import TRAINER_LOG, LogPaths, Output, Plan, PlanNode, Process
from batchai_magics.metrics.reading.event_files import EventFileWriter
from batchai_magics.models.runs.scalar_export import ExportedRun, ScalarPoint


@pytest.fixture
def work(tmp_path):
    for name in ("work", "artifacts", "logs"):
        (tmp_path / name).mkdir()
    return tmp_path / "work"


def follow(work, ranks=1):
    env = {"BATCHAI_ARTIFACT_DIR": str(work.parent / "artifacts")}
    node = PlanNode("node1", str(work), "", env)
    logs = Output(LogPaths(f"{work.parent}/logs/stdout.txt"), LogPaths(""))
    processes = tuple(Process(rank, 0, "true") for rank in range(ranks))
    return TrainerFileLog(Plan("guid", (node,), processes, logs, exits="", python="", telemetry="yes"))


def append(file, text):
    with file.open("a") as stream:
        stream.write(text)


def numbers(work):
    log = work.parent / "logs" / TRAINER_LOG
    lines = log.read_text().splitlines() if log.exists() else []
    rows = map(json.loads, lines)
    return [{key: value for key, value in row.items() if key not in ("time", "rank")} for row in rows]


def test_lines_are_read_as_they_are_completed(work):
    log, file = follow(work), work / "log.jsonl"
    file.write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "lo')
    log.update()
    assert numbers(work) == [{"step": 1, "loss": 2.5}]
    append(file, 'ss": 2.0}\n')
    log.update()
    assert numbers(work)[1:] == [{"step": 2, "loss": 2.0}]


def test_a_row_that_a_kill_cut_off_is_no_number(work):
    log = follow(work)
    (work / "metrics.csv").write_text("step,loss\n1,2.5\n2,2.25"[:-1])
    log.close()
    assert numbers(work) == [{"step": 1, "loss": 2.5}]


def test_an_event_that_is_torn_counts_once_it_is_complete(work):
    writer = EventFileWriter(work.parent / "elsewhere", ExportedRun("r", "guid", "e", 1.0))
    writer.write([ScalarPoint("loss", 2.5, 1, 1.0), ScalarPoint("loss", 2.0, 2, 2.0)])
    writer.finish("", 0.0)
    (whole,) = (work.parent / "elsewhere" / "r").iterdir()
    log, data, file = follow(work), whole.read_bytes(), work / "events.out.tfevents.1"
    file.write_bytes(data[:-3])
    log.update()
    assert numbers(work) == [{"step": 1, "loss": 2.5}]
    file.write_bytes(data)
    log.update()
    assert numbers(work)[1:] == [{"step": 2, "loss": 2.0}]


def test_a_file_that_is_rewritten_with_a_new_column_counts_once(work):
    log, file = follow(work), work / "lightning_logs" / "version_0" / "metrics.csv"
    file.parent.mkdir(parents=True)
    file.write_text("step,loss\n1,2.5\n")
    log.update()
    file.write_text("step,loss,val_loss\n1,2.5,\n1,,3.0\n2,2.0,\n")
    log.update()
    assert numbers(work) == [
        {"step": 1, "loss": 2.5},
        {"step": 1, "val_loss": 3.0},
        {"step": 2, "loss": 2.0},
    ]


def test_a_further_attempt_continues_a_file(work):
    file = work / "metrics.csv"
    file.write_text("step,loss\n1,2.5\n")
    log = follow(work)
    append(file, "2,2.0\n")
    log.close()
    assert numbers(work) == [{"step": 2, "loss": 2.0}]


def test_our_own_exports_are_not_read_back(work):
    log = follow(work)
    writer = EventFileWriter(work / "runs", ExportedRun("r", "guid", "e", 1.0))
    writer.write([ScalarPoint("loss", 2.5, 1, 1.0)])
    writer.finish("", 0.0)
    log.close()
    assert numbers(work) == []


def test_artifacts_are_read_and_a_copy_counts_once(work):
    log = follow(work)
    (work / "log.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
    (work.parent / "artifacts" / "log.jsonl").write_text('{"step": 1, "loss": 2.5, "lr": 1}\n')
    log.close()
    assert numbers(work) == [{"step": 1, "loss": 2.5}, {"step": 1, "lr": 1}]


def test_of_several_ranks_the_first_one_of_the_node_is_named(work):
    log = follow(work, ranks=2)
    (work / "log.jsonl").write_text('{"step": 1, "loss": 2.5}\n{"step": 1, "loss": 3.5, "rank": 1}\n')
    log.close()
    lines = (work.parent / "logs" / TRAINER_LOG).read_text().splitlines()
    assert [(json.loads(line)["rank"], json.loads(line)["loss"]) for line in lines] == [(0, 2.5), (1, 3.5)]


def test_texts_and_objects_without_a_place_are_left_out(work):
    log = follow(work)
    lines = [
        {"step": 1, "text": "secret", "ok": True},
        {"loss": 1.0},
        {"name": "loss", "value": 2, "step": 3},
    ]
    (work / "log.jsonl").write_text("\n".join([*map(json.dumps, lines), '{"step": 4', "[1]"]))
    log.close()
    assert numbers(work) == [{"step": 3, "loss": 2}]


def test_links_and_pipes_are_not_opened(work):
    log = follow(work)
    (work.parent / "other.jsonl").write_text('{"step": 1, "loss": 9.0}\n')
    (work / "link.jsonl").symlink_to(work.parent / "other.jsonl")
    (work / "folder").symlink_to(work.parent)
    os.mkfifo(work / "pipe.jsonl")
    log.close()
    assert numbers(work) == []


def test_rows_beyond_the_time_of_one_update_come_with_the_next(work):
    log = follow(work)
    rows = [{"step": step, "loss": 0.5} for step in range(5000)]
    (work / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    log.update(1e-3)
    assert len(numbers(work)) < len(rows)
    rows.append({"step": len(rows), "loss": 0.25})
    append(work / "log.jsonl", json.dumps(rows[-1]) + "\n")
    while len(numbers(work)) < len(rows):  # an update of a busy machine may have no time for a row
        log.update(1e-3)
    log.close()
    assert numbers(work) == rows

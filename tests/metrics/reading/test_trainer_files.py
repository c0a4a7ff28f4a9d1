"""Files of trainers: TensorBoard's event files, against the genuine program, and folders of CSV and JSON."""

import json
import math
import os
import struct
from pathlib import Path

import pytest

from batchai_magics.errors import UsageError
from batchai_magics.metrics import MetricsWarning, read_metrics
from batchai_magics.metrics.reading.event_files import EventFileReader, EventFileWriter, _masked_crc
from batchai_magics.models.runs.scalar_export import ExportedRun, ScalarPoint
from tests.server.clients import drive

PROGRAMS = Path(__file__).parents[2] / "records" / "programs"
RUN = ExportedRun("resnet", "12345678-0000", "default", 1000.0)
POINTS = [
    ScalarPoint("loss", 2.5, 1, 1001.25),
    ScalarPoint("train/top 1", 0.5, 1, 1001.25, rank=0),
    ScalarPoint("loss", 2.0, 300, 1002.5),
    ScalarPoint("loss", 3.0, 1, 1001.0, rank=2),
]


def written(folder, points=POINTS):
    writer = EventFileWriter(folder, RUN)
    writer.write(points)
    writer.finish("succeeded", 1003.0)
    return folder / "resnet" / "events.out.tfevents.batchai-12345678-0000"


@pytest.mark.slow
def test_the_genuine_tensorboard_reads_every_scalar(tmp_path):
    written(tmp_path)
    written(tmp_path)  # a second export replaces the first
    assert drive("tensorboard", str(PROGRAMS / "read_events.py"), str(tmp_path)) == {
        "resnet": {"loss": [[1, 2.5, 1001.25], [300, 2.0, 1002.5]], "train/top 1": [[1, 0.5, 1001.25]]},
        "resnet/rank-2": {"loss": [[1, 3.0, 1001.0]]},
    }


@pytest.mark.slow
def test_scalars_of_the_genuine_writer_are_read_and_nothing_else(tmp_path):
    drive("tensorboard", str(PROGRAMS / "write_events.py"), str(tmp_path))
    (file,) = tmp_path.iterdir()
    assert list(EventFileReader(file).read()) == [
        ScalarPoint("train/loss", 2.5, 0, 1000.0),
        ScalarPoint("accuracy", 0.75, 2, 1002.0),
        ScalarPoint("rate", 180.5, 3, 1003.0),
    ]


def test_a_growing_file_yields_each_scalar_once_whatever_the_pieces(tmp_path):
    data, growing = written(tmp_path).read_bytes(), tmp_path / "growing"
    growing.touch()
    reader, found = EventFileReader(growing), []
    for at in range(0, len(data), 7):
        with growing.open("ab") as stream:
            stream.write(data[at : at + 7])
        found += reader.read()
    assert [point[:4] for point in found] == [point[:4] for point in POINTS if not point.rank]


def test_a_damaged_file_ends_where_the_damage_starts(tmp_path):
    file = written(tmp_path)
    data = file.read_bytes()
    second = data.rindex(b"loss") - 30
    file.write_bytes(data[:second] + bytes(len(data) - second))
    assert [point.name for point in EventFileReader(file).read()][:1] == ["loss"]


def test_numbers_beyond_32_bits_are_infinite(tmp_path):
    points = [ScalarPoint("loss", value, 1, 0.0) for value in (1e300, -1e300, math.nan)]
    values = [point.value for point in EventFileReader(written(tmp_path, points)).read()]
    assert values[:2] == [math.inf, -math.inf]
    assert math.isnan(values[2])


LIGHTNING = """epoch,step,train_loss,val_acc
0,9,2.5,
0,19,2.25,
0,19,,0.5
1,29,2.0,
"""


def numbers(folder):
    table = read_metrics(folder).frame(tidy=True)
    return [(row.metric, row.step, row.value) for row in table.itertuples()]


def events(folder, name, *points):
    writer = EventFileWriter(folder, ExportedRun(name, "guid", "e", 1000.0))
    writer.write(points)
    writer.finish("", 0.0)


def test_event_files_of_keras_have_a_phase_each(tmp_path):
    events(tmp_path, "train", ScalarPoint("epoch_loss", 2.5, 1, 1001.0))
    events(tmp_path, "validation", ScalarPoint("epoch_loss", 3.0, 1, 1002.0))
    assert numbers(tmp_path) == [("epoch_loss", 1, 2.5), ("val_epoch_loss", 1, 3.0)]


def test_the_ranks_of_an_export_are_told_apart(tmp_path):
    events(tmp_path, "r", ScalarPoint("loss", 2.5, 1, 1001.0), ScalarPoint("loss", 3.0, 1, 1001.0, rank=2))
    table = read_metrics(tmp_path).frame(tidy=True)
    assert [(str(row["rank"]), row["value"]) for _, row in table.iterrows()] == [("<NA>", 2.5), ("2", 3.0)]


def test_empty_cells_of_lightnings_csv_are_no_numbers(tmp_path):
    folder = tmp_path / "lightning_logs" / "version_0"
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text(LIGHTNING)
    assert numbers(tmp_path) == [
        ("train_loss", 9, 2.5),
        ("train_loss", 19, 2.25),
        ("val_acc", 19, 0.5),
        ("train_loss", 29, 2.0),
    ]


def test_a_name_counts_once_at_a_step(tmp_path):
    lines = [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 2.0}, {"note": "no step"}]
    (tmp_path / "log.jsonl").write_text("\n".join([*map(json.dumps, lines), "{broken", "text"]))
    (tmp_path / "metrics.csv").write_text("step,loss,lr\n1,2.5,0.1\n")
    assert sorted(numbers(tmp_path)) == [("loss", 1, 2.5), ("loss", 2, 2.0), ("lr", 1, 0.1)]


def test_a_folder_without_such_files_is_refused(tmp_path):
    (tmp_path / "data.csv").write_text("step,loss\n1,2\n")
    with pytest.raises(UsageError, match="no event files"):
        read_metrics(tmp_path)


def test_bad_files_are_named_and_the_others_are_read(tmp_path):
    events(tmp_path, "train", ScalarPoint("loss", 2.5, 1, 1001.0))
    (whole,) = tmp_path.rglob("*tfevents*")
    huge = struct.pack("<Q", 2**64 - 1)
    (tmp_path / "events.out.tfevents.huge").write_bytes(
        whole.read_bytes() + huge + _masked_crc(huge) + bytes(99)
    )
    os.mkfifo(tmp_path / "metrics.csv")
    (tmp_path / "deep.jsonl").write_text('{"step": 1, "lr": 0.5}\n{"step": ' + "[" * 100_000 + "\n")
    with pytest.warns(MetricsWarning) as caught:
        found = numbers(tmp_path)
    assert sorted(found) == [("loss", 1, 2.5), ("lr", 1, 0.5)]
    texts = sorted(str(each.message) for each in caught)
    assert [text.partition(";")[0] for text in texts] == [
        f"events.out.tfevents.huge: its event at byte {whole.stat().st_size} is damaged",
        "metrics.csv: it is not a regular file",
    ]

"""Event files of TensorBoard, read and written, against the genuine program."""

import math
from pathlib import Path

import pytest

from batchai_magics.metrics.reading.event_files import EventFileReader, EventFileWriter
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

import io
import json
import subprocess
import sys

import pytest

from batchai_magics.errors import UsageError
from batchai_magics.metrics import LogMetrics, read_metrics
from tests.metrics.log_text import run, step, total

TEXT = run(ranks=2)


def test_a_path_bytes_and_a_stream_give_the_same(tmp_path):
    path = tmp_path / "stdout.txt"
    path.write_text(TEXT, newline="")
    expected = read_metrics(TEXT.encode())
    assert (
        read_metrics(path) == read_metrics(str(path)) == read_metrics(io.BytesIO(TEXT.encode())) == expected
    )


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(UsageError, match=r"stdout\.txt: No such file"):
        read_metrics(tmp_path / "stdout.txt")


def test_a_folder_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="cannot read the log"):
        read_metrics(tmp_path)


def test_json_has_the_records_in_file_order_with_unknown_ranks_null():
    text = (
        f"{step(10, 61.9)}\n[1,3]<stdout>:{step(10, 70.0, accuracies=chr(9) + '0.125' + chr(9) + '0.500')}\n"
    )
    told = json.loads(read_metrics(text.encode()).to_json())
    assert list(told) == ["records", "total_images_per_sec", "summary"]
    common = {"step": 10, "uncertainty": 1.8, "jitter": 8.0, "loss": 7.087}
    assert told["records"] == [
        {**common, "rank": None, "images_per_sec": 61.9, "top_1": None, "top_5": None},
        {**common, "rank": 3, "images_per_sec": 70.0, "top_1": 0.125, "top_5": 0.5},
    ]


def test_json_tells_one_total_or_none():
    assert (
        json.loads(read_metrics(f"{total(12.5)}\n{total(12.5)}\n".encode()).to_json())["total_images_per_sec"]
        == 12.5
    )
    assert json.loads(read_metrics(b"").to_json())["total_images_per_sec"] is None


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf"])
def test_json_of_numbers_that_are_not_finite_is_valid(loss):
    (record,) = json.loads(read_metrics(step(10, loss=loss).encode()).to_json(indent=2))["records"]
    assert record["loss"] is None


def test_patterns_reach_the_parser():
    assert [r.value for r in read_metrics(b"acc=0.5\n", patterns={"acc": r"acc=(\S+)"}).records] == [0.5]


def test_the_metrics_offer_frame_summary_and_plot():
    metrics = read_metrics(TEXT.encode())
    assert isinstance(metrics, LogMetrics)
    assert (len(metrics.frame()), metrics.summary().steps, metrics.plot().get_ylabel()) == (
        6,
        20,
        "images/sec",
    )


@pytest.mark.slow
def test_pandas_and_matplotlib_are_imported_only_when_needed():
    code = (
        "import sys; from batchai_magics.metrics import read_metrics; read_metrics(b'').to_json();"
        "sys.exit(any(name in sys.modules for name in ('pandas', 'matplotlib', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""A log read as a whole: its JSON, tidy table, notices, and what reads it."""

import io
import json
import subprocess
import sys

import pytest

from batchai_magics.errors import UsageError
from batchai_magics.metrics import LogMetrics, MetricsWarning, Parser, read_metrics, summarize, tidy
from tests.metrics.log_text import HEADER, run, step, total

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


def test_json_has_the_records_in_file_order_with_unknown_ranks_null():
    text = (
        f"{step(10, 61.9)}\n[1,3]<stdout>:{step(10, 70.0, accuracies=chr(9) + '0.125' + chr(9) + '0.500')}\n"
    )
    told = json.loads(read_metrics(text.encode()).to_json())
    assert list(told) == ["records", "total_images_per_sec", "summary"]
    common = {"step": 10, "epoch": None, "uncertainty": 1.8, "jitter": 8.0, "loss": 7.087}
    assert told["records"] == [
        {**common, "rank": None, "images_per_sec": 61.9},
        {**common, "rank": 3, "images_per_sec": 70.0, "top_1": 0.125, "top_5": 0.5},
    ]


def test_json_has_one_total_or_null():
    assert (
        json.loads(read_metrics(f"{total(12.5)}\n{total(12.5)}\n".encode()).to_json())["total_images_per_sec"]
        == 12.5
    )
    assert json.loads(read_metrics(b"").to_json())["total_images_per_sec"] is None


def test_the_metrics_offer_frame_summary_and_plot():
    metrics = read_metrics(TEXT.encode())
    assert isinstance(metrics, LogMetrics)
    assert (len(metrics.frame()), metrics.summary().steps, metrics.plot().get_ylabel()) == (
        6,
        20,
        "loss",
    )


@pytest.mark.slow
def test_pandas_and_matplotlib_are_imported_only_when_needed():
    code = (
        "import sys; from batchai_magics.metrics import read_metrics; read_metrics(b'').to_json();"
        "sys.exit(any(name in sys.modules for name in ('pandas', 'matplotlib', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def big_log(ranks=(0, 1, None)):
    """Steps of these ranks, with odd numbers among them, and prose: more than a megabyte."""
    tags = ["" if rank is None else f"[1,{rank}]<stdout>:" for rank in ranks]
    kinds = [("7.087", "", 50.0), ("nan", "\t0.125\t0.500", 51.0), ("inf", "\tnan\tnan", 1e12)]
    steps = [step(10 * n, rate, loss, more) for n in range(300) for loss, more, rate in [kinds[n % 3]]]
    lines = "".join(f"{tag}{line}\n" for line in steps for tag in tags)
    return (HEADER + lines + total(5.25) + "\n" + ("noise " * 200 + "\n") * 900).encode()


@pytest.mark.parametrize("ranks", [(None,), (None, 0, 5)])
def test_summary_of_columns_equals_the_summary_of_their_records(ranks):
    metrics = read_metrics(big_log(ranks))
    assert "records" not in vars(metrics)
    assert repr(metrics.summary()) == repr(summarize(Parser().feed(big_log(ranks))))


UNREAD = "".join(f"after {i} rounds: {27 - i / 3:.2f} dB\n" for i in range(5)).encode()


def test_unread_numbers_are_reported_with_the_option_that_reads_them():
    with pytest.warns(MetricsWarning) as caught:
        assert read_metrics(UNREAD).records == ()
    assert [str(warning.message) for warning in caught] == [
        'The log has numbers that were not recognised as metrics, such as "after 2 rounds: 26.33 dB". '
        r"This option reads them: --metric 'rounds=after (?P<step>\d+) rounds: ([-+.\deE]+)'"
    ]


@pytest.mark.parametrize(
    "read", [b"step 1: loss 0.5\n", b"10\timages/sec: 1.0 +/- 0.0 (jitter = 2.5)\t7.000\n"]
)
def test_log_with_some_metrics_gives_no_warning(read):
    assert read_metrics(UNREAD + read).notices == ()
    assert read_metrics(b"prose without any number\n" * 9).notices == ()


def test_pattern_match_that_is_not_a_number_gives_one_warning():
    with pytest.warns(MetricsWarning, match='matched "dB", which is not a number') as caught:
        assert len(read_metrics(UNREAD, patterns={"n": r"(\d+) rounds|(dB)"}).records) == 5
    assert len(caught) == 1


def test_an_uncertainty_of_another_program_makes_no_step_line_of_tf_cnn_benchmarks():
    metrics = read_metrics(b"step 1 loss 0.1 uncertainty: 2.1 images/sec\nstep 2 loss 0.2\n")
    assert metrics.summary().last_loss == 0.2
    assert list(metrics.frame()["step"]) == [1, 2]


def table(text, **patterns):
    return tidy(read_metrics(text.encode(), patterns=patterns).records)


def test_a_row_is_a_number_in_file_order():
    text = f"2019-03-02T10:25:35.25Z [1,3]<stdout>:{step(10)}\n{total(5)}\n"
    found = table(text)
    assert list(found.columns) == ["step", "rank", "metric", "value", "unit", "wall_time", "offset"]
    assert found["metric"].tolist() == [
        "images_per_sec", "uncertainty", "jitter", "loss", "total_images_per_sec",
    ]  # fmt: skip
    assert found["value"].tolist() == [61.9, 1.8, 8.0, 7.087, 5.0]
    assert found["unit"].tolist() == ["images/sec"] * 3 + ["", "images/sec"]
    assert found["step"].isna().tolist() == [False] * 4 + [True]
    assert (found["rank"].iloc[0], found["step"].iloc[0]) == (3, 10)
    assert found["offset"].iloc[0] == text.index("\n") + 1
    assert found["wall_time"].iloc[0].isoformat() == "2019-03-02T10:25:35.250000+00:00"
    assert found["wall_time"].isna().tolist() == [False] * 4 + [True]


def test_no_records_give_an_empty_table_of_the_same_types():
    full = table(run())
    empty = table("")
    assert len(empty) == 0
    assert [kind.kind for kind in empty.dtypes] == [kind.kind for kind in full.dtypes]

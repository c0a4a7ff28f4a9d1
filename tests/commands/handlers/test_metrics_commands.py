import json
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.cli import main
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.command_runner import run
from batchai_magics.commands.handlers import metrics_commands
from batchai_magics.commands.handlers.metrics_commands import ComparisonResult
from batchai_magics.commands.output.shell_output import compact
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.magics.extension import result_html
from batchai_magics.metrics import compare, read_metrics
from tests.calls import calls_of
from tests.metrics.runs.scaling_logs import Handle

STEP = "{}\timages/sec: {:.1f} +/- 0.5 (jitter = 1.0)\t{:.3f}\n"


@pytest.fixture
def log(tmp_path):
    """Writes a log of a run with some ranks, of which one is seen."""

    def write(name, ranks=1, rate=100.0):
        devices = [f"horovod/cpu:{rank}" for rank in range(ranks)]
        text = f"Model:       lenet\nBatch size:  {8 * ranks} global\n             8 per device\n"
        text += f"Devices:     {devices}\n==========\n"
        text += "".join(STEP.format(step, rate, 3 - step / 10) for step in (1, 10, 20))
        (tmp_path / name).write_text(f"{text}total images/sec: {rate * ranks:.2f}\n")
        return str(tmp_path / name)

    return write


def test_csv_has_lines_totals_and_the_summary_in_file_order(do, log):
    rows = do(f"metrics read {log('a.log')}").to_text("csv").splitlines()
    assert rows[0] == "step,rank,epoch,images_per_sec,uncertainty,jitter,loss,kind"
    assert [row.rpartition(",")[2] for row in rows[1:]] == ["line", "line", "line", "total", "summary"]
    assert rows[-1] == "20,,,100.0,0.5,1.0,1.0,summary"


def test_json_escapes_what_a_terminal_would_not_show(tmp_path, capsys):
    (tmp_path / "odd.log").write_text('{"step": 1, "loss": 0.5, "a\u202eb": 3}\n')
    assert main(["metrics", "read", str(tmp_path / "odd.log"), "-o", "json"]) == 0
    printed = capsys.readouterr().out
    assert "\u202e" not in printed
    assert json.loads(printed)["records"][0]["a\u202eb"] == 3


@pytest.mark.parametrize("format", [[], ["-o", "table"]])
def test_the_summary_escapes_what_a_terminal_would_not_show(tmp_path, capsys, format):
    (tmp_path / "odd.log").write_text('{"step": 1, "loss": 0.5, "a\u202eb": 3}\n')
    assert main(["metrics", "read", str(tmp_path / "odd.log"), *format]) == 0
    summary = capsys.readouterr().out.rpartition("\n\n")[2]
    assert "a\\u202eb" in summary
    assert "\u202e" not in summary


@pytest.mark.parametrize("words", ["{0}", "{0} --tidy", "{0} {0}"])
def test_json_of_a_long_log_is_written_line_by_line(do, tmp_path, words):
    lines = (f"step {step} loss {1 / step:.4f} lr 0.001\n" for step in range(1, 301))
    (tmp_path / "long.log").write_text("".join(lines))
    result = do(f"metrics read {words.format(tmp_path / 'long.log')}")
    pieces, text = [*result.text_pieces("json")], result.to_text("json")
    assert "".join(pieces) == text
    assert max(map(len, pieces)) < len(text) / 5


def test_a_table_ends_with_the_summary(do, log):
    text = do(f"metrics read {log('a.log')}").to_text("table")
    assert "steady images/sec  100.0 ± 0.5" in text
    assert "total images/sec" in result_html(do(f"metrics read {log('a.log')}"))


def test_tidy_output_has_a_row_per_number(do, log):
    result = do(f"metrics read {log('a.log')} {log('b.log')} --tidy")
    assert list(result.to_frame().columns) == [
        "file", "step", "rank", "metric", "value", "unit", "wall_time", "offset",
    ]  # fmt: skip
    assert {row["metric"] for row in result.data[1]["records"]} >= {"loss", "total_images_per_sec"}


def test_the_log_of_another_program_has_its_own_columns(do, tmp_path):
    (tmp_path / "keras.log").write_text("Epoch 1/2\n48/48 - 1s - loss: 0.7414 - accuracy: 0.4967\n")
    result = do(f"metrics read {tmp_path / 'keras.log'}")
    assert result.data["records"][0]["accuracy"] == 0.4967
    row = result.to_frame().iloc[0]
    assert (row["epoch"], row["loss"], row["accuracy"], row["kind"]) == (1, 0.7414, 0.4967, "line")


def first_metric(context, file, **settings):
    """The headline of a log, with these settings."""
    found = run(parse(["metrics", "read", str(file)]), Context(replace(context.settings, **settings)))
    return found.data["summary"]["metrics"][0]


def test_the_settings_choose_the_headline_and_directions(context, tmp_path):
    (tmp_path / "a.log").write_text("".join(f"step {n} loss {3 - n} quality {n}\n" for n in (1, 2)))
    assert first_metric(context, tmp_path / "a.log")["name"] == "loss"
    first = first_metric(context, tmp_path / "a.log", headline_metric="quality", falling_metrics="quality")
    assert (first["name"], first["direction"], first["best"]) == ("quality", "falls", 1)


def test_the_settings_choose_the_headline_of_a_large_log(context, log):
    file = Path(log("a.log"))
    prose = ("nothing but words " * 60 + "\n") * 1000  # more than a megabyte of it
    file.write_text(file.read_text() + prose + "".join(STEP.format(step, 100, 2) for step in range(30, 300)))
    assert first_metric(context, file)["label"] == "loss"
    assert first_metric(context, file, headline_metric="images/sec")["label"] == "images/sec"


@pytest.mark.parametrize("count", [1, 2])
def test_a_plot_goes_to_the_file_that_is_named(do, log, tmp_path, count):
    target = tmp_path / "out.svg"
    files = " ".join(log(f"{number}.log") for number in range(count))
    assert do(f"metrics plot {files} -o {target}").data == {"file": str(target)}
    assert target.read_text().startswith("<?xml")


OWN = r"--metric 'recall=recall: (\S+)' --metric 'f1=f1 (?P<value>\S+) at (?P<step>\d+)'"


def test_numbers_of_ones_own_are_read(do, tmp_path):
    (tmp_path / "own.log").write_text("recall: 0.25\nf1 0.5 at 10\nrecall: 0.75\n")
    result = do(f"metrics read {OWN} {tmp_path / 'own.log'} --tidy")
    told = [(row["metric"], row["step"], row["value"]) for row in result.data["records"]]
    assert told == [("recall", None, 0.25), ("f1", 10, 0.5), ("recall", 10, 0.75)]


@pytest.mark.parametrize("count", [1, 2])
def test_a_loss_of_ones_own_is_drawn_and_summed_up(do, tmp_path, count):
    path = tmp_path / "own.log"
    path.write_text("".join(f"after {step}: err {1 / step:.3f}\n" for step in range(1, 9)))
    own = r"--metric 'loss=after (?P<step>\d+): err (?P<value>\S+)'"
    assert do(f"metrics read {path} {own}").data["summary"]["last_loss"] == 0.125
    files = " ".join([str(path), str(tmp_path / "." / "own.log")][:count])
    target = tmp_path / "own.svg"
    do(f"metrics plot {files} {own} -o {target}")
    assert target.read_text().count("<!-- loss -->") == 1


@pytest.mark.parametrize("wrong", ["loss", "=x", "loss=", "loss=(", "loss=x"])
def test_a_pattern_that_cannot_work_is_refused_by_name(do, log, wrong):
    with pytest.raises(UsageError, match="--metric"):
        do(f"metrics read {log('a.log')} --metric '{wrong}'")


def test_a_plot_without_a_file_has_a_picture_but_no_text(do, log):
    result = do(f"metrics plot {log('a.log')}")
    assert result.value.in_notebook._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="no file"):
        result.to_text("json")


def test_a_wrong_picture_is_refused_before_anything_is_read(do):
    with pytest.raises(UsageError, match=r"out\.doc"):
        do("metrics plot missing.log -o out.doc")


def test_logs_are_compared(do, log, tmp_path):
    result = do(f"compare {log('a.log')} {log('b.log', 2, 90)} --plot {tmp_path}/c.png --over images")
    assert [row["run"] for row in result.data] == ["a", "b"]
    assert (tmp_path / "c.png").exists()
    assert json.loads(result.to_text("json"))[1]["speedup"] == 1.8


def test_the_best_run_has_a_star_in_text_for_people_only(do, log):
    result = do(f"compare {log('a.log')} {log('b.log', 2, 90)}")
    column = result.table.titles.index("images_per_sec")
    slow, fast = (row[column] for row in result.table.texts)
    assert fast.endswith(" ★")
    assert not slow.endswith("★")
    assert "★" in compact(result.table).aligned()
    assert not any("★" in result.to_text(form) for form in ("csv", "json", "tsv"))


def test_a_comparison_has_small_numbers_and_the_tags_of_its_runs():
    small = read_metrics(b"step 1: loss 0.00074921\nstep 2: loss 0.00074921\n")
    one, two, tagged = Handle("one", small), Handle("two", small), Handle("two", small, "baseline", "wide")
    table = ComparisonResult(compare([one, tagged])).to_table()
    first, second = (dict(zip(table.titles, row, strict=True)) for row in table.rows)
    assert (first["last_loss"], first["tags"], second["tags"]) == (0.000749, "", "baseline, wide")
    assert "tags" not in ComparisonResult(compare([one, two])).to_table().titles


def test_scaling_tells_the_efficiency(do, log, tmp_path):
    result = do(f"scaling {log('a.log')} {log('b.log', 2, 90)} --plot {tmp_path}/s.pdf")
    assert [row["efficiency_percent"] for row in result.data] == [100, 90]
    assert "weak" in result.to_text("table")
    assert (tmp_path / "s.pdf").read_bytes().startswith(b"%PDF")


def test_a_file_that_looks_like_a_job_is_explained(do, cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").touch()
    do("workspace create -n default")
    do("experiment create -n default")
    with pytest.raises(NotFoundError, match=r"write \./log"):
        do("compare log other.log")


@pytest.mark.parametrize("options", ["", "--tidy "])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_json_and_csv_keep_every_digit(do, tmp_path, options, form):
    log = tmp_path / "log.txt"
    log.write_text('{"step": 1, "loss": 0.12345678901234568}\n{"step": 2, "loss": 98765432.10987654}\n')
    text = do(f"metrics read {options}{log} ").to_text(form)
    assert "0.12345678901234568" in text
    assert "98765432.10987654" in text


def test_cells_of_a_long_log_are_formatted_once(do, log):
    table = do(f"metrics read {log('run.txt')}").table
    with calls_of(metrics_commands._rounded) as calls:
        compact(table).to_text()
    assert calls.count == 2 * len(table.rows)  # of the table, and of the compact one


def test_people_read_a_sum_of_tenths_rounded(do, tmp_path):
    log = tmp_path / "log.txt"
    log.write_text(f'{{"step": 1, "loss": {53.2 + 53.1!r}}}\n')
    assert " 106.3 " in do(f"metrics read {log} ").to_text("table")


def test_numbers_that_were_not_read_are_noted_beside_an_empty_result(do, log, tmp_path):
    text = "".join(f"after {i} rounds: {27 - i / 3:.2f} dB\n" for i in range(5))
    (tmp_path / "own.log").write_text(text)
    result = do(f"metrics read {tmp_path / 'own.log'}")
    assert result.data["records"] == []
    (note,) = result.notes
    assert note.startswith('The log has numbers that were not recognised as metrics, such as "after 2 rounds')
    option = note.rpartition(": ")[0].rpartition("reads them: ")[2] + note[note.rindex(": ") :]
    again = do(f"metrics read {tmp_path / 'own.log'} {option} --tidy")
    assert (len(again.data["records"]), again.notes) == (5, ())
    both = do(f"metrics read {log('a.log')} {tmp_path / 'own.log'}")
    assert [note.partition(": ")[0] for note in both.notes] == [str(tmp_path / "own.log")]


def test_a_log_without_metrics_is_noted(do, log, tmp_path):
    (tmp_path / "own.log").write_text("hello\nworld\n")
    assert do(f"metrics read {tmp_path / 'own.log'}").notes == ("The log has no metrics.",)
    assert do(f"metrics read {log('a.log')}").notes == ()


def test_a_match_that_is_no_number_is_noted(do, tmp_path):
    (tmp_path / "own.log").write_text("psnr=low\npsnr=27.5\n")
    result = do(f"metrics read {tmp_path / 'own.log'} --metric 'psnr=psnr=(\\S+)' --tidy")
    assert result.notes == ('--metric psnr matched "low", which is not a number, in the line: psnr=low',)
    assert [row["value"] for row in result.data["records"]] == [27.5]

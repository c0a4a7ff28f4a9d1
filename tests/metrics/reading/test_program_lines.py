"""Lines of programs that the grammar reads with a row of the table of programs, or without: their numbers."""

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from batchai_magics.metrics import Fact, Measurement, Parser
from batchai_magics.metrics.grammar import line_grammar
from batchai_magics.metrics.measurement import TOTAL, lines_of
from batchai_magics.metrics.programs import PROGRAM_FACTS, PROGRAM_LINES, PROGRAM_PREFIXES, PROGRAM_TABLES
from tests.metrics.reading.program_lines import HEADER_LINES, LINES


def read(text):
    parser = Parser()
    return parser.feed(text.encode()) + parser.finish()


def values(text):
    return {record.name: record.value for record in read(text) if isinstance(record, Measurement)}


def places(text):
    return {(record.epoch, record.step) for record in read(text) if isinstance(record, Measurement)}


@pytest.mark.parametrize("line", HEADER_LINES)
def test_a_line_gives_its_entry_of_the_header(line):
    assert [(record.key, record.value) for record in read(line + "\n")] == [HEADER_LINES[line]]


@pytest.mark.parametrize(
    "prefix",
    [
        "INFO:root:",
        "INFO:__main__: ",
        "INFO: ",
        "[INFO] ",
        "2026-03-02 10:25:36,087 - root - INFO - ",
        "2026-03-02 10:25:36 | INFO | ",
        "I1121 10:00:00.360748 139885108074240 train.py:116] ",
        "[trainer] ",
    ],
)
@pytest.mark.parametrize(
    ("line", "key", "value"),
    [("Model: ResNet50", "model", "ResNet50"), ("Batch size: 32", "batch_size", "32")],
)
def test_a_fact_behind_the_prefix_of_a_logger_is_one(prefix, line, key, value):
    assert [(record.key, record.value) for record in read(f"{prefix}{line}\n")] == [(key, value)]


MARK = re.compile(
    r"<(?P<name>[\w{}/.@ -]+)!?(?:\[(?P<unit>[^]]*)\])?=(?P<number>[-+\d.,e]+)(?P<per>[ ]?[mu]?s)?>"
    r"|<(?P<text>\w+|\*):(?P<sample>[^>]*)>"
)
NO_METRICS = ("step", "epoch", "rank", "seconds", "total", "year", "month")
ABOVE = "step 7: loss 0.5\n"
TABLE = (*PROGRAM_LINES, *PROGRAM_PREFIXES, *PROGRAM_TABLES, *PROGRAM_FACTS)


def printed(sample):
    """The line of a sample, all of its optional parts and one of those that repeat."""
    text = re.sub(r"\[\[(.*?)(?:\|\|.*?)?\]\]", r"\1", sample)
    return MARK.sub(
        lambda mark: (mark["number"] or mark["sample"] or "") + (mark["per"] or ""),
        re.sub(r"\?\{|\}\?", "", text),
    )


def marked(row):
    """The values of the marks of a row and those that its objects hold."""
    scales = {"ms": 1e3, "us": 1e6}
    marks = [mark for mark in MARK.finditer(row.sample) if mark["name"] and mark["name"] not in NO_METRICS]
    numbers = [
        float(mark["number"].replace(",", "")) / scales.get((mark["per"] or "").strip(), 1) for mark in marks
    ]
    objects = [mark["sample"] for mark in MARK.finditer(row.sample) if mark["text"] == "json"]
    return {round(number, 9) for number in numbers} | {
        float(n) for o in objects for n in re.findall(r"(?:value|loss)\": ([\d.]+)", o)
    }


@pytest.mark.parametrize("row", PROGRAM_LINES, ids=lambda row: f"{row.program}: {row.sample[:40]}")
def test_the_sample_line_of_a_program_gives_its_marked_numbers_with_names_and_units(row):
    text = printed(row.sample)
    told = [record for record in read(f"{ABOVE}{text}\n") if isinstance(record, Measurement)][1:]
    wanted = marked(row) if row.kind and row.kind.name not in ("YEAR", "HEADING") else set()
    assert {round(record.value, 9) for record in told} == wanted
    named = {(mark["name"], mark["unit"] or "") for mark in MARK.finditer(row.sample) if mark["name"]}
    plain = {(name, unit) for name, unit in named if "{" not in name and name not in NO_METRICS}
    assert not wanted or plain <= {(record.name.removeprefix("val_"), record.unit) for record in told} | {
        (record.name, record.unit) for record in told
    }
    for position in ("step", "epoch"):
        mark = next((mark for mark in MARK.finditer(row.sample) if mark["name"] == position), None)
        if mark:
            assert {getattr(record, position) for record in told} <= {float(mark["number"].replace(",", ""))}


@pytest.mark.parametrize("row", PROGRAM_PREFIXES, ids=lambda row: row.program)
def test_a_prefix_of_the_table_stands_before_a_line_of_the_grammar(row):
    text = f"{printed(row.sample)}\n"
    marks = {mark["name"]: float(mark["number"]) for mark in MARK.finditer(row.sample)}
    numbers = {name: number for name, number in marks.items() if name not in NO_METRICS}
    assert values(text) == numbers
    assert places(text) == {(marks.get("epoch"), marks.get("step"))}


@pytest.mark.parametrize("row", PROGRAM_TABLES, ids=lambda row: f"{row.program}: {row.sample[:40]}")
def test_the_sample_table_of_a_program_gives_its_marked_numbers(row):
    told = read(f"{ABOVE}{printed(row.sample)}\n")[1:]
    assert {record.value for record in told} == marked(row)
    assert row.phase is None or row.phase in {record.phase for record in told}


@pytest.mark.parametrize("row", PROGRAM_FACTS, ids=lambda row: f"{row.program}: {row.sample[:40]}")
def test_the_sample_fact_of_a_program_is_a_fact_of_the_run(row):
    told = read(f"{printed(row.sample)}\n")
    assert next(record.value for record in told if isinstance(record, Fact)) in printed(row.sample)


ADDED = """
from batchai_magics.metrics import programs
row = programs.ProgramLine(program="New", sample="Pass <step=3> has a wobble of <wobble=0.5>")
programs.PROGRAM_LINES += (row,)
from batchai_magics.metrics import read_metrics
(record,) = read_metrics(b"Pass 7 has a wobble of 1.25\\n").records
print(record.name, record.step, record.value)
"""


@pytest.mark.slow
def test_a_row_is_all_that_a_new_program_needs():
    ran = subprocess.run([sys.executable, "-c", ADDED], capture_output=True, text=True, check=True)
    assert ran.stdout == "wobble 7 1.25\n"


def code_of(path):
    """The names and the texts of a module, without its docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        is_docstring = token.type == tokenize.STRING and token.string.startswith('"""')
        if token.type in (tokenize.NAME, tokenize.STRING) and not is_docstring:
            yield token.string


@pytest.mark.parametrize(
    "path", sorted(Path(line_grammar.__file__).parent.glob("*.py")), ids=lambda path: path.stem
)
def test_no_code_of_the_grammar_is_for_one_program(path):
    names = {name for row in TABLE for name in row.program.split(", ")}
    named = re.compile(r"(?i)(?<![a-z])(?:" + "|".join(map(re.escape, names)) + r")(?![a-z])")
    assert not [text for text in code_of(path) if named.search(text)]


def test_no_line_of_other_programs_is_one_of_tf_cnn_benchmarks():
    records = read("".join(f"{line}\n" for line in LINES))
    assert not [record for record in records if getattr(record, "name", "") in ("uncertainty", "eval_top_1")]
    assert [r.value for r in records if isinstance(r, Fact) and r.key == TOTAL] == ["811.3"]


def test_a_rate_in_parentheses_is_no_evaluation_of_tf_cnn_benchmarks():
    text = "2016-03-02 10:11:12.123456: step 10, loss = 3.5 (64.5 examples/sec; 3.125 sec/batch)\n"
    assert values(text) == {"loss": 3.5}


@pytest.mark.parametrize("line", LINES)
def test_a_last_line_that_is_cut_gives_all_or_nothing(line):
    whole = values(f"{line}\n")
    assert whole
    for length in range(len(line)):
        assert values(line[:length]) in ({}, whole)


def test_the_docs_list_the_programs_of_the_table():
    text = (Path(__file__).parents[3] / "docs/metrics-grammar.md").read_text(encoding="utf-8")
    listed = text.partition("(`batchai_magics/metrics/programs.py`):\n\n")[2].partition(".\n\n## ")[0]
    programs = [name for row in TABLE for name in row.program.split(", ")]
    assert re.split(r",\s", listed) == [*dict.fromkeys(programs)]


BAR = "[==============================]"


def told(text, *names):
    """Epoch, step and value of the records with these names."""
    return [(r.epoch, r.step, r.value) for r in read(text) if isinstance(r, Measurement) and r.name in names]


def test_redrawn_number_is_recorded_once():
    text = (
        f"Epoch 1/2\n48/48 {BAR} - ETA: 0s - loss: 0.9490\r"
        f"48/48 {BAR} - 1s 5ms/step - loss: 0.9490 - val_loss: 0.8000\n"
    )
    assert told(text, "loss", "val_loss") == [(1, 48, 0.949), (1, 48, 0.8)]


def test_an_unknown_number_of_batches_is_no_hindrance():
    text = f"Epoch 1/2\n     10/Unknown {BAR} - ETA: 0s - loss: 0.5000\r\n"
    assert told(text, "loss") == [(1, 10, 0.5)]


CHAINER = "epoch       iteration   main/loss   validation/main/loss\n"


def test_rows_below_the_header_are_read_through_the_progress_bar():
    bar = "\x1b[J     total [####......] 20.00%\nthis epoch [####......] 0.00%\n    600 iter, 1 epoch\n"
    text = f"\x1b[J{CHAINER}\x1b[4A\x1b[J1           600         0.19        0.09\n{bar}"
    text += "\x1b[4A\x1b[J2           1200        0.08        0.07\n"
    assert told(text, "main/loss") == [(1, 600, 0.19), (2, 1200, 0.08)]


def test_a_long_number_moves_the_others():
    text = f"{CHAINER}1           100         -1.23457e-05  0.09\n"
    assert told(text, "val_main/loss") == [(1, 100, 0.09)]


MLPERF = ':::MLPv0.5.0 resnet 1541026345.12 (run.py:101) eval_accuracy: {"epoch": 1, "value": 0.107}'


def test_a_line_in_both_streams_is_one_record():
    text = f"{MLPERF}\nI1121 00:00:01.000000 140 mlperf_log.py:136] {MLPERF}\n"
    assert told(text, "eval_accuracy") == [(1, None, 0.107)]


def test_json_wins_over_the_patterns_of_formats():
    text = '{"step": 10, "loss": 0.5, "text": "110\timages/sec: 1.0 +/- 3.4 (jitter = 12.5)\\t7.916"}\n'
    assert [type(r) for r in read(text.replace("\t", " "))] == [Measurement]


def test_the_metric_log_of_tf_cnn_benchmarks_is_read():
    text = '{"name": "top_1_accuracy", "value": 0.5, "unit": "fraction", "global_step": 7, "extras": []}\n'
    (record,) = read(text)
    assert (record.name, record.value, record.unit, record.step) == ("top_1_accuracy", 0.5, "fraction", 7)


def test_numbers_too_large_are_left_out():
    assert read('{"step": 1, "loss": ' + "9" * 400 + "}\n") == []
    assert read('{"step": ' + "9" * 400 + ', "loss": 1}\n') == []


def test_a_deep_object_is_no_metric():
    assert read('{"step": 1, "x": ' + "[" * 8000 + "\n") == []
    assert read('{"step": 1, "x": ' + "[" * 8000 + "]" * 8000 + "}\n") == []


def test_a_worker_prints_its_own_steps():
    lines = [
        "1549883160.500000: Worker 1: training step 1 done (global step: 11)",
        "1549883162.000000: Worker 0: training step 2 done (global step: 14)",
    ]
    records = read("".join(f"{line}\n" for line in lines))
    assert [(r.rank, r.step, r.value, r.wall_time) for r in records] == [
        (1, 11, 1, 1549883160.5),
        (0, 14, 2, 1549883162.0),
    ]


def test_one_log_may_have_several_programs():
    step = "110\timages/sec: 2296.2 +/- 3.4 (jitter = 12.5)\t7.916"
    text = f'{step}\nstep=1 loss=0.5\n{step}{step}\n{{"epoch": 2, "loss": 0.25}}\n{step}\n'
    lines = [line[0].name for line in lines_of(read(text))]
    speed = "images_per_sec"
    assert lines == [speed, "loss", speed, speed, "loss", speed]


def test_lines_of_other_versions_of_a_program_may_have_other_numbers():
    form = ":::MLPv{} 1541026345.5 (run_loop.py:638) train_loss : {}\n"
    versions = ("7.5.3", "0.5.0", "0.5.1", "0.5.0")
    records = read("".join(form.format(version, place) for place, version in enumerate(versions)))
    assert [record.value for record in records if record.name == "train_loss"] == [1, 3]

"""The lines of tf_cnn_benchmarks: its header, steps, totals and evaluations, whole, cut, glued or dirty."""

import pytest

from batchai_magics.metrics import Fact, Measurement, Parser
from batchai_magics.metrics.measurement import LENGTH
from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES
from batchai_magics.metrics.reading.log_parser import read_table
from tests.metrics.log_text import HEADER, step, step_lines, total

OPENING = "TensorFlow:  1.12\n"


def entries(text):
    return {r.key: r.value for r in Parser().feed(text.encode()) if isinstance(r, Fact)}


def test_every_line_of_the_block_is_an_entry():
    assert entries(HEADER) == {
        "tensorflow": "1.12",
        "model": "resnet50",
        "dataset": "imagenet (synthetic)",
        "mode": "training",
        "single_sess": "False",
        "batch_size_global": "128",
        "batch_size_per_device": "32",
        "num_batches": "100",
        "num_epochs": "0.01",
        "devices": "['horovod/gpu:0', 'horovod/gpu:1', 'horovod/gpu:2', 'horovod/gpu:3']",
        "numa_bind": "False",
        "data_format": "NCHW",
        "optimizer": "sgd",
        "variables": "horovod",
        "horovod_on": "gpu",
    }


OF_SOME_VERSIONS = {
    "Mode:        BenchmarkMode.TRAIN": ("mode", "BenchmarkMode.TRAIN"),
    "Batch size:  64.0 global": ("batch_size_global", "64.0"),
    "             64.0 per device": ("batch_size_per_device", "64.0"),
    "             2 batches per prepocessing group": ("batch_group_size", "2"),
    "Layout optimizer: False": ("layout_optimizer", "False"),
    "RewriterConfig: auto_parallel {": ("rewriter_config", "auto_parallel {"),
    "Use NCCL:    True": ("use_nccl", "True"),
    "AllReduce:   nccl": ("all_reduce", "nccl"),
    "Sync:        True": ("sync", "True"),
    "Staged vars: False": ("staged_vars", "False"),
    "Data type:   float16": ("data_type", "float16"),
    "Step\tImg/sec\tloss": ("columns", "Step\tImg/sec\tloss"),
}


def test_lines_that_only_some_versions_print_are_entries():
    assert entries("\n".join([OPENING, *OF_SOME_VERSIONS, ""])) == {
        "tensorflow": "1.12",
        **dict(OF_SOME_VERSIONS.values()),
    }


def test_a_block_may_begin_at_the_model():
    assert entries("Model:       vgg16\nVariables:   replicated\n") == {
        "model": "vgg16",
        "variables": "replicated",
    }


def test_library_messages_between_the_lines_do_not_end_the_block():
    noise = "2018-06-12 10:00:00.000001: I tensorflow/core/platform/cpu.cc:140] AVX2\n" * 300
    assert entries(noise.join(HEADER.splitlines(keepends=True))) == entries(HEADER)


def test_lines_of_other_programs_are_no_entries():
    assert entries('Model: "functional_1"\nBatch size: 32 per step\nMode: fast\nOptimizer: adam\n') == {}


def test_value_that_is_not_a_number_is_no_entry():
    assert entries(f"{OPENING}Num batches: many\n") == {"tensorflow": "1.12"}


def test_broken_text_in_a_value_is_replaced():
    (record,) = Parser().feed(b"Model:       r\xffsnet\n")
    assert record.value == "r\ufffdsnet"


def test_the_entries_of_a_line_come_before_its_step():
    records = Parser().feed((OPENING.strip() + step(1) + "\n").encode())
    assert [type(r).__name__ for r in records] == ["Fact"] + ["Measurement"] * 4


def test_the_label_of_the_next_line_is_no_part_of_a_value():
    records = Parser().feed(b"[0] Model:       resnet50[1] \n[1] Model:       vgg16[0] \n[0] \n")
    assert [record.value for record in records] == ["resnet50", "vgg16"]


def read(text):
    parser = Parser()
    return parser.feed(text.encode()) + parser.finish()


def steps_of(text):
    return step_lines(read(text))


def steps(text):
    return [(record.step, record.loss) for record in step_lines(read(text))]


def test_the_rest_of_a_step_is_no_step_0_but_ends_its_line():
    """Another process wrote between the digits of step 10."""
    rest = step(10, loss="6.500")[1:]
    assert steps(f"{step(20)}\n1\n{rest}\n{step(30)}\n") == steps(f"{step(20)}\n{step(30)}\n")
    assert steps(f"{rest}{step(30)}\n") == steps(f"{step(30)}\n")


def test_a_step_line_gives_all_its_numbers():
    line = "110\timages/sec: 2296.2 +/- 3.4 (jitter = 12.5)\t7.916\n"
    assert read(line) == [
        Measurement("images_per_sec", 2296.2, "images/sec", 110, offset=len(line)),
        Measurement("uncertainty", 3.4, "images/sec", 110, offset=len(line)),
        Measurement("jitter", 12.5, "images/sec", 110, offset=len(line)),
        Measurement("loss", 7.916, "", 110, offset=len(line)),
    ]


@pytest.mark.parametrize("blanks", ["\t", " ", "    ", " \t "])
def test_tabs_may_have_become_blanks(blanks):
    (record,) = steps_of(step(10, accuracies="\t0.125\t0.500").replace("\t", blanks) + "\n")
    assert (record.step, record.loss, record.top_5) == (10, 7.087, 0.5)


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf", "0.000", "-1.500", "502216779393662976.000"])
def test_a_loss_may_be_any_number(loss):
    (record,) = steps_of(step(10, loss=loss, accuracies=f"\t{loss}\t{loss}" * (loss == "nan")) + "\n")
    numbers = [record.loss, *([record.top_1, record.top_5] if loss == "nan" else [])]
    assert repr(numbers) == repr([float(loss)] * len(numbers))


def test_text_appended_by_a_wrapper_is_not_read_as_the_loss():
    assert steps(step(10) + " 1587077440\n") == [(10, 7.087)]


def test_the_offset_is_the_end_of_the_line():
    text = f"noise\n{step(1)}\r\nmore\n{step(10)}\n"
    offsets = [record.offset for record in steps_of(text)]
    assert offsets == [text.index("\r\n") + 2, len(text)]


def test_totals_are_read():
    text = total(1740.38) + "\n"
    assert read(text) == [Fact("total_images_per_sec", "1740.38", None, text.index("38") + 3)]


def test_totals_in_different_forms_are_read_in_file_order():
    prefixes = ("", "2026-03-02 10:00:00 ", "[rank3]: ", "")
    lines = [f"{prefixes[n % 4]}total images/sec: {10 ** (n % 3)}.25\n" for n in range(20_000)]
    facts = read_table(["".join(lines).encode()])
    ranks, times = (None, None, 3, None), (None, 1772445600.0, None, None)
    printed = [(f"{10 ** (n % 3)}.25", ranks[n % 4], times[n % 4]) for n in range(20_000)]
    assert [(fact.value, fact.rank, fact.wall_time) for fact in facts] == printed


class TestUnfinishedLines:
    def test_a_whole_last_line_counts_at_the_end(self):
        assert steps(step(1) + "\n" + step(10)) == [(1, 7.087), (10, 7.087)]

    def test_truncated_line_gives_no_numbers(self):
        assert [length for length in range(len(step(10))) if read(step(10)[:length])] == []

    @pytest.mark.parametrize("tail", ["\t", "\t0", "\t0.", "\t0.12", "\t0.125", "\t0.125\t", "\t0.125\t0.50"])
    def test_cut_accuracies_give_nothing(self, tail):
        assert read(step(10) + tail) == []

    def test_line_without_newline_and_accuracies_is_skipped_if_other_lines_have_them(self):
        assert steps(step(1, accuracies="\t0.125\t0.500") + "\n" + step(10)) == [(1, 7.087)]

    def test_missing_accuracies_of_an_ended_line_are_missing(self):
        assert steps(f"{step(1, accuracies=chr(9) + '0.125	0.500')}\n{step(10)} x\n") == [
            (1, 7.087),
            (10, 7.087),
        ]

    @pytest.mark.parametrize("text", ["total images/sec: 17", "total images/sec: 1740.3"])
    def test_a_cut_total_gives_nothing(self, text):
        assert read(text) == []


class TestNearMisses:
    @pytest.mark.parametrize(
        "line",
        [
            "Total images/sec: 1134.505",
            "Total images/sec: 1134.50",
            "INFO:__main__:2:  Total images/sec: 1134.50",
            "total images/sec: 1134.505",
            "total images/sec: 1134.5",
            "subtotal images/sec: 1134.50",
            "images/sec: 1134.50",
            "images/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000",
            "\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000",
            "10images/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000",
            "10\timages/sec: 105 +/- 1.0 (jitter = 1.0)\t7.000",
            "10\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.00",
            "10\timages/sec: 105.6",
            "step 50/50, iter_time(ms)=4.7, images/sec=211",
            "step 10, loss = 4.66 (123.4 examples/sec; 0.104 sec/batch)",
            "speed: 123.4 examples/sec",
            "Accuracy @ 1 = 0.12 Accuracy @ 5 = 0.50 [100 examples]",
            "9" * 5000 + "\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000",
        ],
    )
    def test_a_similar_line_of_another_program_is_none_of_this_one(self, line):
        records = read(f"{line}\n")
        assert step_lines(records) == []
        assert {record.key for record in records if isinstance(record, Fact)} <= {LENGTH}

    def test_a_step_on_the_line_before_is_not_taken(self):
        assert read("10\n\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000\n") == []


class TestEvaluation:
    def test_examples_per_second_are_no_training_rate(self):
        (record,) = read("20\t412.7 examples/sec\n")
        assert record[:4] == ("eval_examples_per_sec", 412.7, "examples/sec", 20)
        assert record.phase == "val"

    @pytest.mark.parametrize(
        "line",
        [
            "Accuracy @ 1 = 0.1234 Accuracy @ 5 = 0.5678 [50000 examples]",
            "Precision @ 1 = 0.1234 recall @ 5 = 0.5678 [50000 examples]",
        ],
    )
    def test_accuracies_of_old_and_new_versions_are_read(self, line):
        found = {record.name: record.value for record in read(f"{line}\n")}
        assert found == {"eval_top_1": 0.1234, "eval_top_5": 0.5678, "eval_examples": 50000}


LINE = step(10).encode()


def found(text):
    return [(r.step, r.loss) for r in step_lines(read(text))]


def test_two_step_lines_on_one_line_are_split_after_three_decimals():
    assert found(step(30) + step(30, 74.3, "6.500") + "\n\n") == [(30, 7.087), (30, 6.5)]


@pytest.mark.parametrize("loss", ["nan", "inf", "0.000", "502216779393662976.000"])
def test_any_loss_may_be_glued_to_the_next_step(loss):
    assert [number for number, _ in found(step(30, loss=loss) + step(40) + "\n")] == [30, 40]


def test_accuracies_are_split_after_three_decimals():
    text = step(7, accuracies="\t0.125\t0.000") + step(8, accuracies="\t0.250\t0.500") + "\n"
    assert [(r.step, r.top_5) for r in step_lines(read(text))] == [(7, 0.0), (8, 0.5)]


def test_a_version_number_before_a_step_is_taken_off():
    records = read("TensorFlow:  1.8" + step(1) + "\n")
    assert [(r.key, r.value) for r in records if isinstance(r, Fact)] == [("tensorflow", "1.8")]
    assert [r.step for r in step_lines(records)] == [1]


def test_a_number_of_batches_before_a_step_is_taken_off():
    records = read(HEADER + "Num batches: 100" + step(10) + "\n")
    assert [r.value for r in records if isinstance(r, Fact) and r.key == "num_batches"] == ["100"] * 2
    assert [r.step for r in step_lines(records)] == [10]


def test_a_year_before_a_step_is_taken_off():
    text = f"{HEADER}{step(1)}\nFinishing real work at step 109 at time Fri Feb 10 09:00:00 2017{step(20)}\n"
    assert [number for number, _ in found(text)] == [1, 20]


def test_text_before_a_step_leaves_the_number_as_it_is():
    assert found("Done warm up" + step(120) + "\nsvc-1  | " + step(101) + "\n") == [
        (120, 7.087),
        (101, 7.087),
    ]


def test_the_last_step_may_be_that_of_the_last_batch():
    header = HEADER.replace("Num batches: 100", "Num batches: 101")
    assert found(f"{header}{step(10)}\nhello {step(101)}\n")[-1] == (101, 7.087)
    assert found(f"{HEADER}{step(10)}\nversion 1.8{step(100)}\n")[-1] == (100, 7.087)


def test_first_step_is_1_or_a_multiple_of_10():
    assert found(f"version 1.85{step(1)}\n") == [(1, 7.087)]


def test_a_line_with_fewer_decimals_gives_nothing_below_a_whole_one():
    assert found(f"{step(10)}\n{step(20)[:-1]}\n") == [(10, 7.087)]


def test_a_total_and_a_step_are_split_after_two_decimals():
    total_record, first, *_ = read("total images/sec: 1740.38" + step(10) + "\n")
    assert (total_record.value, first.step) == ("1740.38", 10)


def test_total_right_after_a_dashed_line_is_read():
    assert [r.value for r in read(total(55.5).replace("\n", "") + "\n")] == ["55.50"]


ACCURACY = "Accuracy @ 1 = 0.1234 Accuracy @ 5 = 0.5678 [50000 examples]"


@pytest.mark.parametrize(
    ("line", "other"),
    [
        (f"{step(10)} 1587077440", f"{step(20)} 6825978845"),
        (f"{step(10)} 1587077440", f"{step(20)} 15870774401"),
        (step(10, accuracies="\t0.125\t0.500"), step(20, accuracies="\t12.125\t0.500")),
        (ACCURACY, ACCURACY.replace("0.1234", "12.1234")),
    ],
)
def test_number_with_other_decimals_is_not_read_as_a_time_or_share_of_the_line_above(line, other):
    def told(*lines):
        records = read("".join(f"{each}\n" for each in lines))
        return [record._replace(offset=0) for record in records if isinstance(record, Measurement)]

    assert told(line, other) == told(line) + told(other)
    assert told(other, line) == told(other) + told(line)


@pytest.mark.parametrize("prefix", ["2026-03-02 10:25:35,087 - ", "10:25:35 | INFO | ", "node1: ", "2: "])
def test_a_total_behind_the_prefix_of_a_logger_is_read(prefix):
    assert [r.value for r in read(f"{prefix}total images/sec: 1740.38\n")] == ["1740.38"]


def test_a_library_message_may_follow_at_once():
    text = "total images/sec: 1740.382018-06-12 10:00:00.000001: I tensorflow/core/x.cc:1] hello\n"
    assert [r.value for r in read(text)] == ["1740.38"]


def test_a_splice_inside_a_record_loses_only_that_record():
    assert found("810\timages/sec: 230.0 +/" + step(10) + "\n") == [(10, 7.087)]


def test_a_record_without_its_step_still_ends_where_it_ends():
    spliced = "\timages/sec: 230.0 +/- 0.3 (jitter = 1.0)\t7.916" + step(30)
    assert found(f"{spliced}\n") == [(30, 7.087)]


def test_two_header_lines_on_one_line_are_both_read():
    text = HEADER + "Num batches: 100Num batches: 100\nModel:       vgg16Dataset:     cifar10==========\n"
    entries = [(r.key, r.value) for r in read(text) if isinstance(r, Fact)]
    assert entries[-4:] == [("num_batches", "100")] * 2 + [("model", "vgg16"), ("dataset", "cifar10")]


ACCURACY = "Accuracy @ 1 = 0.1234 Accuracy @ 5 = 0.5678 [500 examples]"


@pytest.mark.parametrize("before", [step(10), step(0), "total images/sec: 61.90"])
def test_lines_joined_to_a_tagged_line_have_its_rank(before):
    log = "".join(f"[1,{rank}]<stdout>:{before}{ACCURACY}\n" for rank in (5, 6))
    assert [record.rank for record in read(log) if getattr(record, "name", "") == "eval_top_1"] == [5, 6]


@pytest.mark.parametrize(
    ("line", "place", "loss"),
    [
        ("Epoch 1: loss 0.5Number of GPUs: 8", 1, 0.5),
        ("Model: resnet50Epoch 3 loss 0.4", 3, 0.4),
    ],
)
def test_numbers_are_read_beside_a_fact_without_a_newline_between(line, place, loss):
    numbers = [record for record in read(f"{line}\n") if not isinstance(record, Fact)]
    assert [(record.epoch, record.name, record.value) for record in numbers] == [(place, "loss", loss)]


def test_a_line_of_dllogger_behind_its_parameters_is_read_without_a_newline():
    line = "DLL 2021-06-14 23:08:51.659718 - epoch    1 | iter   1/48 | loss 38.48 | mel loss 30.79"
    text = f"DLL 2021-06-14 23:08:50.000123 - PARAMETER | epochs 1000  batch_size 16{line}\n"
    numbers = [record for record in read(text) if not isinstance(record, Fact)]
    assert [(record.name, record.value) for record in numbers] == [("loss", 38.48), ("mel_loss", 30.79)]
    assert [(record.epoch, record.step) for record in numbers] == [(1, 1)] * 2


def test_many_steps_without_a_newline_are_all_read():
    """As `print(…, end=" ")` writes them."""
    text = "".join(f"step {i} loss 0.{i % 10} " for i in range(1, 401))
    assert [(record.step, record.value) for record in read(text)] == [(i, i % 10 / 10) for i in range(1, 401)]


@pytest.mark.parametrize("number", [75, 7, 25])
def test_a_step_behind_a_decimal_that_may_begin_anywhere_is_not_guessed(number):
    assert found(f"{step(25)}\nversion 1.8{step(number)}\n{step(50)}\n") == [(25, 7.087), (50, 7.087)]


@pytest.mark.parametrize("text", ["version 1.8", "TensorFlow:  1.1", "Model:       vgg16", "images/sec: 23"])
def test_a_step_whose_digits_may_begin_at_two_places_is_left_out(text):
    assert [r.step for r in read(f"{text}{step(120)}\n{step(20)}\n") if isinstance(r, Measurement)] == [
        20
    ] * 4


@pytest.mark.parametrize("text", ["Running evaluation at global_step ", "Num batches: "])
@pytest.mark.parametrize(
    ("number", "glued", "steps"), [(110, 100, [100]), (13, 3, [3]), (110, 110, []), (235, 175, [])]
)
def test_step_after_a_total_is_split_where_it_does_not_exceed_the_total(text, number, glued, steps):
    records = read(f"{text}{number}{step(glued)}\n")
    assert [r.step for r in records if isinstance(r, Measurement)] == [s for s in steps for _ in range(4)]


def test_a_step_behind_endless_digits_is_left_out():
    assert found(f"Num batches: {'9' * 5000}{step(10)}\n{step(20)}\n") == [(20, 7.087)]


def test_a_number_of_epochs_before_a_step_is_taken_off():
    records = read(f"Num epochs:  0.13{step(120)}\n")
    assert [r.value for r in records if isinstance(r, Fact)] == ["0.13"]
    assert [r.step for r in step_lines(records)] == [120]


@pytest.mark.parametrize("loss", ["total_loss", "loss\ttop_1_accuracy\ttop_5_accuracy", "lossDone warm up"])
def test_column_headers_between_steps_of_several_processes_open_no_table(loss):
    columns = f"Step\tImg/sec\t{loss}\n"
    text = f"==========\n{columns}{step(1)}\n{columns}==========\n{columns}{step(10)}\n{columns}{step(20)}\n"
    assert found(text) == [(1, 7.087), (10, 7.087), (20, 7.087)]


def test_a_record_at_the_cut_of_an_overlong_line_is_read():
    cut = step(10).index(" +/-")
    assert found("y" * (MAX_LINE_BYTES - cut) + "#" + step(70) + "\n")[0] == (70, 7.087)


@pytest.mark.parametrize(
    "line",
    [
        b"\x1b[33m" + LINE + b"\x1b[0m",
        LINE.replace(b"images", b"im\x1b[1mages"),
        LINE.replace(b"images", b"im\x1b]8;;https://example.org\x1b\\ages"),
        LINE.replace(b"images", b"im\x1b]0;title\x07ages"),
        LINE.replace(b"images", b"im\x1b[38:2::1:2:3mages"),
        LINE.replace(b"images", b"im\x1b[?25lag\x1b[1 qes"),
        b"\x1b]0;a command without its end " + LINE,
        b"\0" * 4096 + LINE,
        LINE.replace(b"/", b"\0/"),
        b"\b\b\b" + LINE,
        LINE + b" \xff\xfe\xc3(",
        b"\xe2\x94 " + LINE,
        b"25% done\r" + LINE,
        step(10).encode("utf-16-le"),
        b"```" + LINE,
    ],
)
def test_a_step_line_is_read_through_what_is_not_its_text(line):
    assert [(r.step, r.loss) for r in step_lines(Parser().feed(line + b"\n"))] == [(10, 7.087)]

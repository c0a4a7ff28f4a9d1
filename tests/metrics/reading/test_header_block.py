import pytest

from batchai_magics.metrics import Fact, Parser
from tests.metrics.log_text import HEADER, step

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


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("Mode:        BenchmarkMode.TRAIN", "mode", "BenchmarkMode.TRAIN"),
        ("Mode:        training + evaluation", "mode", "training + evaluation"),
        ("Batch size:  64.0 global", "batch_size_global", "64.0"),
        ("             64.0 per device", "batch_size_per_device", "64.0"),
        ("             2 batches per prepocessing group", "batch_group_size", "2"),
        ("Layout optimizer: False", "layout_optimizer", "False"),
        ("RewriterConfig: auto_parallel {", "rewriter_config", "auto_parallel {"),
        ("Variables:   distributed_all_reduce", "variables", "distributed_all_reduce"),
        ("Use NCCL:    True", "use_nccl", "True"),
        ("AllReduce:   nccl", "all_reduce", "nccl"),
        ("Sync:        True", "sync", "True"),
        ("Staged vars: False", "staged_vars", "False"),
        ("Data type:   float16", "data_type", "float16"),
        ("Step\tImg/sec\tloss", "columns", "Step\tImg/sec\tloss"),
        (
            "Step\tImg/sec\ttotal_loss\ttop_1_accuracy\ttop_5_accuracy",
            "columns",
            "Step\tImg/sec\ttotal_loss\ttop_1_accuracy\ttop_5_accuracy",
        ),
    ],
)
def test_lines_that_only_some_versions_print_are_entries(line, key, value):
    assert entries(f"{OPENING}{line}\n")[key] == value


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


def test_a_number_that_is_none_is_no_entry():
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

"""What other programs than tf_cnn_benchmarks say about their runs, and whose rates they print."""

import pytest

from batchai_magics.metrics import compare, figure_png, read_metrics, scaling

HOROVOD = """\
[1,0]<stdout>:Model: ResNet50
[1,0]<stdout>:Batch size: 32
[1,0]<stdout>:Number of GPUs: 8
[1,0]<stdout>:Running warmup...
[1,0]<stdout>:Running benchmark...
[1,0]<stdout>:Iter #0: 101.2 img/sec per GPU
[1,0]<stdout>:Iter #1: 101.6 img/sec per GPU
[1,0]<stdout>:Img/sec per GPU: 101.4 +-0.4
[1,0]<stdout>:Total img/sec on 8 GPU(s): 811.2 +-3.1
"""
DLLOGGER = """\
DLL 2020-11-09 09:33:02.123456 - PARAMETER arch : resnet50
DLL 2020-11-09 09:33:02.123456 - PARAMETER num_gpus : 4
DLL 2020-11-09 09:33:02.123456 - PARAMETER batch_size : 64
DLL 2020-11-09 09:33:02.123456 - PARAMETER lr : 0.256
"""


def summary(text):
    return read_metrics(text.encode()).summary()


def devices(count):
    """Horovod's benchmark on so many devices."""
    text = HOROVOD.replace("GPUs: 8", f"GPUs: {count}").replace(
        "8 GPU(s): 811.2", f"{count} GPU(s): {101.4 * count}"
    )
    return read_metrics(text.encode())


def test_horovods_benchmark_tells_model_batches_and_devices():
    told = summary(HOROVOD)
    assert (told.model, told.batch_size_per_device, told.batch_size_global) == ("ResNet50", 32, 256)
    assert (told.device_count, told.ranks, told.total_images_per_sec) == (8, 8, 811.2)
    assert told.steady.images_per_sec == pytest.approx(811.2, rel=1e-3)
    assert (told.per_device, told.steps) == (pytest.approx(101.4, rel=1e-3), 2)
    assert (told.last_loss, told.loss_trend, told.has_nan) == (None, None, False)
    assert "32 per device" in str(told)
    begun = summary("".join(HOROVOD.splitlines(keepends=True)[:5]))
    assert (begun.model, begun.ranks, begun.batch_size_global, begun.steady) == ("ResNet50", 8, 256, None)


def test_batch_size_alone_counts_per_process_only_if_one_process_runs():
    alone = summary("Model: lenet\nBatch size: 16\nIter #0: 10.0 img/sec per CPU\n")
    assert (alone.batch_size_per_device, alone.batch_size_global) == (16, 16)
    lines = "".join(
        f"[1,{rank}]<stdout>:Batch size: 16\n[1,{rank}]<stdout>:Step #1\tLoss: 1.500000\n" for rank in (0, 1)
    )
    assert summary(lines).batch_size_per_device is None


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:"])
def test_dlloggers_parameters_tell_the_run(prefix):
    told = summary("".join(f"{prefix}{line}\n" for line in DLLOGGER.splitlines()))
    assert (told.model, told.device_count) == ("resnet50", 4)
    assert (told.batch_size_per_device, told.batch_size_global) == (64, 256)


def test_parameters_in_dlloggers_json_are_facts_and_not_metrics():
    told = summary(
        'DLLL {"timestamp": "1570716916.14", "type": "LOG", "step": "PARAMETER", "data":'
        ' {"model": "bert", "dataset_name": "squad", "global_batch_size": 96, "train_batch_size": 12}}\n'
    )
    assert (told.model, told.dataset, told.batch_size_global, told.metrics) == ("bert", "squad", 96, ())


def test_header_without_processes_gives_no_process_count():
    assert summary("Model: lenet\nBatch size: 16\n").ranks == 0


def test_non_integer_parameter_is_not_a_batch_size():
    assert summary(DLLOGGER.replace(": 64", ": auto")).batch_size_per_device is None


def test_samples_per_second_of_cntk_cover_all_processes():
    line = "[1,{}]<stdout>:Finished Epoch[{} of 9]: [Training] loss = 0.4 * 600 {:.3f}s ({:.1f} samples/s);\n"
    seconds = [2.0, 2.0, 2.5, 2.0]
    log = "".join(
        line.format(rank, epoch, s, 600 / s) for epoch in range(1, 6) for rank, s in enumerate(seconds)
    )
    told = summary(log)
    assert told.steady.images_per_sec == pytest.approx((3 * 300 + 240) / 4)
    assert told.per_process == pytest.approx(told.steady.images_per_sec / 4)
    assert (told.ranks, told.rates, told.skew, told.stragglers) == (4, {}, None, ())
    (line,) = compare([read_metrics(log.encode())]).plot().figure.axes[1].lines
    assert line.get_ydata()[-1] == pytest.approx(285)  # as it is


def test_horovods_own_benchmark_scales():
    found = scaling({"one": devices(1), "eight": devices(8)}).frame()
    assert found["processes"].tolist() == [1, 8]
    assert found["efficiency_percent"].tolist() == pytest.approx([100, 100])


def test_a_row_of_the_frame_is_a_line_with_its_numbers():
    line = "48/48 - 1s - loss: 0.7414 - accuracy: 0.4967 - 953ms/epoch - 20ms/step\n"
    table = read_metrics(f"Epoch 1/2\n{line}Epoch 2/2\n{line}".encode()).frame()
    assert (table["loss"].tolist(), table["accuracy"].tolist()) == ([0.7414] * 2, [0.4967] * 2)
    assert table["epoch"].tolist() == [1, 2]
    assert str(table["step"].dtype) == "Int64"


def test_runs_without_any_rate_are_compared_by_their_losses():
    logs = [read_metrics(f"Step #{step}\tLoss: 1.500000\n".encode()) for step in (10, 20)]
    compared = compare([*logs, devices(8)])
    assert compared.frame()["last_loss"].tolist()[:2] == [1.5, 1.5]
    assert figure_png(compared.plot()).startswith(b"\x89PNG")
    assert figure_png(compare(logs).plot()).startswith(b"\x89PNG")

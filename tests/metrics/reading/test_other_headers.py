"""What other programs than tf_cnn_benchmarks say about their runs, and whose rate it is that they print."""

import pytest

from batchai_magics.metrics import compare, read_metrics

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
DLLOGGER_JSON = (
    'DLLL {"timestamp": "1570716916.14", "type": "LOG", "step": "PARAMETER", "data":'
    ' {"model": "bert", "dataset_name": "squad", "global_batch_size": 96, "train_batch_size": 12}}\n'
)
EPOCH = (
    "[1,{}]<stdout>:Finished Epoch[{} of 9]: [Training] loss = 0.4 * 600,"
    " metric = 9.00% * 600 {:.3f}s ({:.1f} samples/s);\n"
)


def summary(text):
    return read_metrics(text.encode()).summary()


def cntk(seconds, epochs=6):
    return "".join(
        EPOCH.format(rank, epoch, taken, 600 / taken)
        for epoch in range(1, epochs)
        for rank, taken in enumerate(seconds)
    )


def test_horovods_benchmark_tells_model_batches_and_devices():
    told = summary(HOROVOD)
    assert (told.model, told.batch_size_per_device, told.batch_size_global) == ("ResNet50", 32, 256)
    assert (told.device_count, told.ranks, told.total_images_per_sec) == (8, 8, 811.2)
    assert told.steady.images_per_sec == pytest.approx(811.2, rel=1e-3)
    assert "32 per device" in str(told)


def test_the_header_of_a_run_that_just_began_is_told():
    told = summary("".join(HOROVOD.splitlines(keepends=True)[:5]))
    assert (told.model, told.ranks, told.batch_size_global, told.steady) == ("ResNet50", 8, 256, None)


def test_a_batch_size_alone_is_that_of_one_process_only_where_one_runs():
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


def test_dlloggers_json_tells_them_too():
    told = summary(DLLOGGER_JSON)
    assert (told.model, told.dataset, told.batch_size_global) == ("bert", "squad", 96)


def test_a_parameter_that_is_no_count_is_no_batch_size():
    assert summary(DLLOGGER.replace(": 64", ": auto")).batch_size_per_device is None


def test_the_samples_per_second_of_cntk_are_those_of_all_its_processes():
    told = summary(cntk([2.0, 2.0, 2.5, 2.0]))
    assert told.steady.images_per_sec == pytest.approx((3 * 300 + 240) / 4)
    assert told.per_process == pytest.approx(told.steady.images_per_sec / 4)
    assert (told.ranks, told.rates, told.skew, told.stragglers) == (4, {}, None, ())


def test_the_overlay_draws_a_global_rate_as_it_is():
    loss = compare([read_metrics(cntk([2.0, 2.0]).encode())]).plot()
    (line,) = loss.figure.axes[1].lines
    assert line.get_ydata()[-1] == pytest.approx(300)

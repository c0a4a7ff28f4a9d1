import pytest

from batchai_magics.metrics import compare, figure_png, read_metrics, scaling

HOROVOD = """\
[1,0]<stdout>:Model: ResNet50
[1,0]<stdout>:Iter #0: 100.0 img/sec per GPU
[1,0]<stdout>:Iter #1: 50.0 img/sec per GPU
[1,0]<stdout>:Iter #2: 100.0 img/sec per GPU
[1,0]<stdout>:Img/sec per GPU: 83.3 +-2.3
[1,0]<stdout>:Total img/sec on {devices} GPU(s): {total:.1f} +-18.6
"""


def horovod(devices=8, total=600.0):
    return read_metrics(HOROVOD.format(devices=devices, total=total).encode())


def test_rates_of_lines_become_the_speed_of_all_devices():
    summary = horovod().summary()
    assert summary.steady.images_per_sec == pytest.approx(8 * 75)
    assert (summary.ranks, summary.device_count, summary.steps) == (8, 8, 3)
    assert (summary.per_device, summary.total_images_per_sec) == (pytest.approx(75), 600)


def test_a_log_without_losses_has_no_nan():
    summary = horovod().summary()
    assert (summary.last_loss, summary.loss_trend, summary.has_nan) == (None, None, False)


def test_horovods_own_benchmark_scales():
    found = scaling({"one": horovod(1), "eight": horovod(8)}).frame()
    assert found["processes"].tolist() == [1, 8]
    assert found["efficiency_percent"].tolist() == pytest.approx([100, 100])


def test_losses_without_rates_have_a_trend_and_a_chart():
    log = "".join(f"Step #{step}\tLoss: {3 - step / 100:.6f}\n" for step in range(0, 100, 10))
    metrics = read_metrics(log.encode())
    summary = metrics.summary()
    assert (summary.loss_trend, summary.first_loss, summary.steady) == ("falling", 3.0, None)
    (losses,) = metrics.plot().figure.axes
    assert losses.get_ylabel() == "loss"
    assert len(losses.lines[0].get_ydata()) == 10


def test_a_row_of_the_frame_is_a_line_with_its_numbers():
    line = "48/48 - 1s - loss: 0.7414 - accuracy: 0.4967 - 953ms/epoch - 20ms/step\n"
    table = read_metrics(f"Epoch 1/2\n{line}Epoch 2/2\n{line}".encode()).frame()
    assert (table["loss"].tolist(), table["accuracy"].tolist()) == ([0.7414] * 2, [0.4967] * 2)
    assert table["epoch"].tolist() == [1, 2]
    assert str(table["step"].dtype) == "Int64"


def test_runs_without_any_rate_are_compared_by_their_losses():
    logs = [read_metrics(f"Step #{step}\tLoss: 1.500000\n".encode()) for step in (10, 20)]
    compared = compare([*logs, horovod()])
    assert compared.frame()["last_loss"].tolist()[:2] == [1.5, 1.5]
    assert figure_png(compared.plot()).startswith(b"\x89PNG")
    assert figure_png(compare(logs).plot()).startswith(b"\x89PNG")

import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.figure import Figure

from batchai_magics.errors import UsageError
from batchai_magics.metrics import figure_png, frame, plot, read_metrics, tidy
from batchai_magics.metrics.charts.run_chart import NOTHING, is_drawable, shade_warm_up
from tests.metrics.log_text import run, step

PNG = b"\x89PNG\r\n"


def records(text):
    return read_metrics(text.encode()).records


def test_metrics_of_one_quantity_and_phase_have_colours_of_their_own():
    text = "".join(f"step {n} loss {2 / n} train_loss {3 / n} val_loss {4 / n}\n" for n in (1, 2, 3))
    (losses,) = plot(records(text)).figure.axes
    colours = {line.get_label(): line.get_color() for line in losses.lines}
    assert {"loss", "train_loss", "val_loss"} <= set(colours)
    assert len(set(colours.values())) == len(colours)


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_first_panel_names_the_ranks_and_each_one_the_line_over_all_of_them():
    given = Figure().add_subplot()
    assert plot(records(run(ranks=2)), ax=given) is given
    losses, rates = given.figure.axes  # the headline, and the speed on a twin
    assert labels(given) == ["loss", "images/sec"]
    assert legend(losses) == ["rank 0", "rank 1", "mean of the ranks"]
    assert legend(rates) == ["all ranks"]
    assert [line.get_label() for line in rates.lines] == ["rank 0", "rank 1", "all ranks"]
    assert list(rates.lines[-1].get_ydata()) == [201, 201, 201]


def test_many_ranks_are_drawn_as_a_band():
    text = "".join(f"[1,{rank}]<stdout>:step 1 loss {rank + 1}\n" for rank in range(16))
    assert len(plot(records(text)).lines) == 17
    (line,), ax = (found := plot(records(f"{text}[1,16]<stdout>:step 1 loss 17\n"))).lines, found
    assert line.get_ydata().tolist() == [9.0]
    (band,) = ax.collections
    assert [band.get_datalim(ax.transData).y0, band.get_datalim(ax.transData).y1] == [1.0, 17.0]
    assert legend(ax) == ["range of 17 ranks", "mean of the ranks"]


def test_band_beside_a_total_scales_to_all_ranks():
    text = "".join(f"[1,{rank}]<stdout>:{step(10, rate=90 + rank)}\n" for rank in range(20))
    ax = plot(records(text), metrics="images/sec")
    (band,) = ax.collections
    assert (band.get_datalim(ax.transData).y0, band.get_datalim(ax.transData).y1) == (1800, 2180)
    assert ax.lines[-1].get_ydata().tolist() == [1990]


def test_frame_and_its_records_give_the_same_plot():
    found = records(run(ranks=2) + f"[1,7]<stdout>:{step(30)}\n")
    lines = [line.get_xydata().tolist() for line in plot(found).lines]
    assert [line.get_xydata().tolist() for line in plot(frame(found)).lines] == lines
    again = plot(tidy(records(KERAS)), metrics=["val_acc", "time"])
    assert again.lines[0].get_ydata().tolist() == [0.1, 0.2]
    assert labels(again) == ["val_acc", "time"]  # a timer is drawn if it is named


@pytest.mark.parametrize(
    "text",
    [
        run(ranks=2) + "20\t412.7 examples/sec\nAccuracy @ 1 = 0.5000 Accuracy @ 5 = 0.7500 [640 examples]\n",
        "Epoch 0.5: loss=1.5\nstep 3: acc=0.5\nEpoch 1.5: loss=1.0\n",
    ],
)
def test_missing_cell_of_a_frame_is_not_drawn(text):
    assert points(frame(records(text))) == points(records(text))


def points(data):
    return [[line.get_xydata().tolist() for line in axes.lines] for axes in plot(data).figure.axes]


def labels(ax):
    return [axes.get_ylabel() for axes in ax.figure.axes]


def test_quantities_that_the_log_lacks_get_no_panel():
    losses = "".join(f"Step #{step}\tLoss: 1.500000\n" for step in (10, 20))
    rates = "".join(f"Iter #{step}: 10.0 img/sec per GPU\n" for step in (0, 1))
    assert labels(plot(records(losses))) == ["loss"]
    assert labels(plot(records(rates))) == ["images_per_sec_per_device"]
    assert plot(records(losses)).get_xlabel() == "step"
    ax = plot(records("".join(f"step={step} acc={step / 100:.2f} lr=0.1\n" for step in (10, 20, 30))))
    assert labels(ax) == ["acc", "lr"]
    assert ax.lines[0].get_xydata().tolist() == [[10, 0.1], [20, 0.2], [30, 0.3]]


def test_metrics_of_user_patterns_are_always_drawn():
    text = run() + "".join(f"[1,{rank}]<stdout>:epoch error {error}\n" for rank in (0, 1) for error in (3, 2))
    ax = read_metrics(text.encode(), patterns={"error": r"epoch error (\d+)"}).plot()
    assert labels(ax) == ["loss", "images/sec", "error"]
    assert [line.get_ydata().tolist() for line in ax.figure.axes[2].lines] == [
        [3, 2]
    ] * 3  # both and their mean


KERAS = "".join(
    f"epoch={n} step={100 * n} loss={3 - n} time={n}s\nepoch={n} val_loss={4 - n} val_acc=0.{n}\n"
    for n in (1, 2)
)


def test_training_and_validation_of_a_quantity_are_one_panel():
    ax = plot(records(KERAS))
    assert labels(ax) == ["loss", "val_acc"]
    assert legend(ax) == ["loss", "val_loss"]
    assert [line.get_xydata().tolist() for line in ax.lines] == [
        [[100, 2], [200, 1]],
        [[100, 3], [200, 2]],
    ]


def test_unknown_metric_error_lists_the_metrics():
    with pytest.raises(UsageError) as caught:
        plot(records(KERAS), metrics="val_accuracy")
    assert "val_acc" in caught.value.hint


def test_a_run_is_drawn_over_epochs_and_time():
    rows = [f'{{"epoch": {n}, "step": {9 * n}, "time": {1763805600 + 5 * n}, "loss": 1}}\n' for n in (1, 2)]
    found = records("".join(rows))
    for axis, places in {"step": [9, 18], "epoch": [1, 2], "time": [0, 5]}.items():
        ax = plot(found, x=axis)
        assert ax.lines[0].get_xdata().tolist() == places
    assert ax.get_xlabel() == "time (s)"


def test_a_smooth_line_is_drawn_over_the_values_as_they_are():
    text = "".join(f"step {n}: loss {value}\n" for n, value in ((1, 4.0), (2, 2.0), (3, 4.0)))
    raw, smooth = plot(records(text), smooth=0.5).lines
    assert raw.get_ydata().tolist() == [4, 2, 4]
    assert smooth.get_ydata().tolist() == pytest.approx([4, 2 / 0.75 * 1.0, 2.5 / 0.875 + 0.5714], rel=0.05)


@pytest.mark.parametrize("wrong", [{"x": "minutes"}, {"smooth": 1.0}, {"smooth": -0.1}])
def test_invalid_options_are_refused(wrong):
    with pytest.raises(UsageError):
        plot(records(KERAS), **wrong)


@pytest.mark.parametrize("text", ["", "hello\n", "Step #10\tLoss: nan\n", "Model: lenet\n"])
def test_log_without_numbers_is_drawn_as_a_message(text):
    ax = plot(records(text))
    assert [words.get_text() for words in ax.texts] == [NOTHING]
    assert not ax.axison
    assert not is_drawable(records(text))
    given = plot([], ax=Figure().add_subplot())
    assert ([words.get_text() for words in given.texts], len(given.figure.axes)) == ([NOTHING], 1)
    assert figure_png(ax).startswith(PNG)


def test_the_rate_of_all_processes_is_one_line():
    line = "[1,{}]<stdout>:Finished Epoch[{} of 9]: loss = 0.4 * 600 2.000s (300.0 samples/s);\n"
    text = "".join(line.format(rank, epoch) for epoch in (1, 2) for rank in (0, 1))
    ax = plot(records(text), metrics="total_samples_per_sec")
    assert [line.get_ydata().tolist() for line in ax.lines] == [[300, 300]]


@pytest.mark.parametrize(
    "text", ["", step(1) + "\n", run(ranks=20), step(1, loss="nan") + "\n", step(1, loss="inf") + "\n"]
)
def test_few_many_and_strange_points_are_drawn(text):
    assert figure_png(plot(records(text))).startswith(PNG)


def test_the_axes_are_one_picture_as_the_value_of_a_cell():
    formatter = DisplayFormatter(active_types=["text/plain", "image/png"])
    data, _ = formatter.format(plot(records(run())))
    assert set(data) == {"text/plain", "image/png"}


def test_figure_does_not_belong_to_pyplot():
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot

    before = matplotlib.pyplot.get_fignums()
    plot(records(run()))
    assert matplotlib.pyplot.get_fignums() == before


@pytest.mark.parametrize(("cut", "words"), [(1, "warm-up, 1 step"), (1200, "warm-up, 1,200 steps")])
def test_the_warm_up_is_shaded_and_says_how_long_it_is(cut, words):
    ax = Figure().add_subplot()
    shade_warm_up(ax, cut)
    assert [text.get_text() for text in ax.texts] == [words]

import pytest
from IPython.core.formatters import DisplayFormatter
from log_text import run, step

from batchai_magics.metrics import figure_png, frame, plot, read_metrics

PNG = b"\x89PNG\r\n"


def records(text):
    return read_metrics(text.encode()).records


def test_the_axes_show_images_per_second_and_the_loss_below():
    ax = plot(records(run(ranks=2)))
    assert [axes.get_ylabel() for axes in ax.figure.axes] == ["images/sec", "loss"]


def test_each_rank_and_all_together_are_lines():
    ax = plot(records(run(ranks=2)))
    assert [line.get_label() for line in ax.lines] == ["rank 0", "rank 1", "all ranks"]
    assert list(ax.lines[-1].get_ydata()) == [201, 201, 201]


def test_a_frame_draws_what_its_records_draw():
    found = records(run(ranks=2) + f"[1,7]<stdout>:{step(30)}\n")
    lines = [line.get_xydata().tolist() for line in plot(found).lines]
    assert [line.get_xydata().tolist() for line in plot(frame(found)).lines] == lines


def test_given_axes_are_drawn_on_with_the_loss_on_a_twin():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plot(records(run()), ax=ax) is ax
    assert [axes.get_ylabel() for axes in ax.figure.axes] == ["images/sec", "loss"]


@pytest.mark.parametrize(
    "text", ["", step(1) + "\n", run(ranks=20), step(1, loss="nan") + "\n", step(1, loss="inf") + "\n"]
)
def test_few_many_and_strange_points_are_drawn(text):
    assert figure_png(plot(records(text))).startswith(PNG)


def test_the_axes_are_one_picture_as_the_value_of_a_cell():
    formatter = DisplayFormatter(active_types=["text/plain", "image/png"])
    data, _ = formatter.format(plot(records(run())))
    assert set(data) == {"text/plain", "image/png"}


def test_pyplot_knows_nothing_of_the_figure():
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot

    before = matplotlib.pyplot.get_fignums()
    plot(records(run()))
    assert matplotlib.pyplot.get_fignums() == before

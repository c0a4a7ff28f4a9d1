"""Figures in files and on screen: one palette for live and still, a rank has one colour everywhere."""

import re
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
from matplotlib.colors import same_color, to_rgba
from matplotlib.image import imread

from batchai_magics import widgets
from batchai_magics.errors import UsageError
from batchai_magics.metrics import Parser, compare, figure_png, plot, read_metrics, save_figure, scaling
from batchai_magics.metrics.charts.figure import INK, PALETTE, RANK_COLOURS
from tests.metrics.runs.scaling_logs import log

BEGINNINGS = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}


@pytest.fixture(scope="module")
def study():
    return scaling([log(1, 100), log(2, 90)])


@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_suffix_determines_the_format_of_a_figure(study, suffix, tmp_path):
    path = study.save(tmp_path / f"figure.{suffix}")
    assert path.read_bytes().startswith(BEGINNINGS[suffix])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    again = save_figure(study.plot(), tmp_path / f"again.{suffix}")
    assert path.read_bytes() == again.read_bytes()  # the same numbers make the same file


def test_a_pdf_embeds_its_fonts_as_truetype(tmp_path):
    path = compare([log(1, 100)]).save(tmp_path / "figure.pdf")
    assert b"/Type3" not in path.read_bytes()


@pytest.mark.parametrize("name", ["figure", "figure.doc", "missing/figure.svg"])
def test_saving_to_an_invalid_path_is_refused(study, name, tmp_path):
    with pytest.raises(UsageError, match=name):
        study.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_figure_drawn_by_two_threads_is_complete_in_both(tmp_path):
    ax = plot(read_metrics(b"1\timages/sec: 9.0 +/- 0.0 (jitter = 0.0)\t3.000\n" * 3).records)
    whole = {dpi: figure_png(ax, dpi=dpi) for dpi in (50, 200)}
    with ThreadPoolExecutor(4) as threads:
        drawn = list(threads.map(lambda dpi: (dpi, figure_png(ax, dpi=dpi)), [50, 200] * 6))
    assert all(png == whole[dpi] for dpi, png in drawn)


CSS = (Path(widgets.__file__).parent / "frontend/core/view.css").read_text(encoding="utf-8")
RANKS = "".join(
    f"[1,{rank}]<stdout>:{step}\timages/sec: 9.0 +/- 1.0 (jitter = 1.0)\t{step + rank}.000\n"
    for step in (1, 2, 3)
    for rank in (1, 3)
    if (step, rank) != (3, 3)
)


def records(text=RANKS):
    return Parser().feed(text.encode())


def test_colours_of_ranks_match_the_live_view():
    live = re.findall(r"--ba-rank-(\d): (#[0-9a-f]{6});", CSS)
    assert live == [(str(rank), colour) for rank, colour in enumerate(RANK_COLOURS)]


def test_a_rank_keeps_its_colour_in_every_panel():
    losses, rates = plot(records()).figure.axes
    for panel in (losses, rates):
        colours = [line.get_color() for line in panel.get_lines()]
        assert colours == [RANK_COLOURS[1], RANK_COLOURS[3], PALETTE[0]]


def test_mean_covers_the_ranks_that_have_the_step():
    *_, mean = plot(records()).figure.axes[0].get_lines()
    assert mean.get_ydata().tolist() == [3, 4, 4]


def test_any_metric_is_drawn_in_the_colours_of_its_ranks():
    text = "".join(f"[1,{rank}]<stdout>:step={s} psnr={s + rank}\n" for s in (1, 2) for rank in (0, 2))
    (panel,) = plot(records(text)).figure.axes
    first, other, mean = panel.get_lines()
    assert [first.get_color(), other.get_color()] == [RANK_COLOURS[0], RANK_COLOURS[2]]
    assert mean.get_ydata().tolist() == [2, 3]


@pytest.mark.parametrize(
    "axes", [lambda: plot(records()), lambda: compare([read_metrics(RANKS.encode())] * 2).plot()]
)
def test_figure_is_readable_on_light_and_dark_pages(axes):
    ax = axes()
    picture = imread(BytesIO(figure_png(ax)))
    assert picture[0, 0, 3] == 0  # no ground of its own
    assert same_color(ax.yaxis.label.get_color(), INK)
    for ground in (0.0, 1.0):
        assert contrast(luminance(to_rgba(INK)[:3]), ground) >= 4


def test_saved_figure_is_black_on_white_and_displayed_one_is_unchanged(tmp_path):
    ax = plot(records())
    shown = figure_png(ax)
    picture = imread(save_figure(ax, tmp_path / "figure.png"))
    assert picture[0, 0].tolist() == [1, 1, 1, 1]
    assert (picture[:, :, :3].sum(axis=2) == 0).any()  # black ink
    assert figure_png(ax) == shown


def luminance(colour):
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    low, high = sorted((one, other))
    return (high + 0.05) / (low + 0.05)


def test_drawing_functions_run_one_at_a_time():
    from batchai_magics.metrics.charts import comparison_chart, figure, run_chart, scaling_chart

    functions = (
        figure.figure_png,
        figure.save_figure,
        run_chart.plot,
        comparison_chart.draw_runs,
        scaling_chart.draw_scaling,
    )
    assert all(hasattr(function, "__wrapped__") for function in functions)

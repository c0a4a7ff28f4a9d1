from concurrent.futures import ThreadPoolExecutor

import pytest

from batchai_magics.errors import UsageError
from batchai_magics.metrics import compare, figure_png, plot, read_metrics, save_figure, scaling
from tests.metrics.runs.scaling_logs import log

BEGINNINGS = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}


@pytest.fixture(scope="module")
def study():
    return scaling([log(1, 100), log(2, 90)])


@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_the_suffix_says_how_a_figure_is_written(study, suffix, tmp_path):
    path = study.save(tmp_path / f"figure.{suffix}")
    assert path.read_bytes().startswith(BEGINNINGS[suffix])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_the_same_numbers_make_the_same_file(study, suffix, tmp_path):
    one, other = (save_figure(study.plot(), tmp_path / f"{name}.{suffix}") for name in "ab")
    assert one.read_bytes() == other.read_bytes()


def test_a_pdf_embeds_its_fonts_as_truetype(tmp_path):
    path = compare([log(1, 100)]).save(tmp_path / "figure.pdf")
    assert b"/Type3" not in path.read_bytes()


@pytest.mark.parametrize("name", ["figure", "figure.doc", "missing/figure.svg"])
def test_a_place_that_cannot_be_is_refused(study, name, tmp_path):
    with pytest.raises(UsageError, match=name):
        study.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_figure_that_two_threads_draw_is_whole_in_both(tmp_path):
    ax = plot(read_metrics(b"1\timages/sec: 9.0 +/- 0.0 (jitter = 0.0)\t3.000\n" * 3).records)
    whole = {dpi: figure_png(ax, dpi=dpi) for dpi in (50, 200)}
    with ThreadPoolExecutor(4) as threads:
        drawn = list(threads.map(lambda dpi: (dpi, figure_png(ax, dpi=dpi)), [50, 200] * 6))
    assert all(png == whole[dpi] for dpi, png in drawn)


def test_all_that_draw_take_turns():
    from batchai_magics.metrics.charts import comparison_chart, figure, run_chart, scaling_chart

    functions = (
        figure.figure_png,
        figure.save_figure,
        run_chart.plot,
        comparison_chart.draw_runs,
        scaling_chart.draw_scaling,
    )
    assert all(hasattr(function, "__wrapped__") for function in functions)

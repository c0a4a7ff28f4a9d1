"""Charts in a browser: phases in one chart, x axes, a cursor for all of them, files, the full screen."""

import csv
import json
import re

import pytest
from playwright.sync_api import expect

from batchai_magics.jobs.job_handle import Job
from tests.widgets.scripted_job import JOB
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def train(backend):
    """Writes the numbers of two phases, by step and epoch."""
    for step in range(100, 1100, 100):
        place = {"step": step, "epoch": step // 200}
        losses = {"loss": 200 / step, "accuracy": step / 2000, "lr": step / 1e7, "f1": step / 3000}
        backend.write(json.dumps({**place, **losses, "grad_norm": 2.5}) + "\n")
        if step % 500 == 0:
            backend.write(json.dumps({**place, "val_loss": 300 / step}) + "\n")


HEIGHTS = "() => [...document.querySelectorAll('.ba-chart')].map((one) => one.offsetHeight)"


def test_charts_of_a_job_share_steps_and_a_cursor_and_are_saved(open_job, backend, tmp_path):
    train(backend)
    charts = open_job(Job(backend, JOB))
    charts.get_by_role("img", name=re.compile("^loss at step 1000, train 0.200, val 0.300$")).wait_for()
    have_one_cursor(charts)
    chart = charts.get_by_role("group", name="loss", exact=True)
    is_saved(charts, chart, tmp_path)
    fills_the_screen(charts, chart)
    are_chosen_and_smoothed(charts)
    have_one_axis(charts)


def are_chosen_and_smoothed(charts):
    """Those of the first numbers are drawn, the others on request."""
    for title in ("accuracy", "f1"):
        charts.get_by_role("img", name=re.compile(f"^{title} at step 1000")).wait_for()
    choices = charts.get_by_label("Charts", exact=True)
    expect(charts.get_by_role("img", name=re.compile("^grad_norm at"))).to_have_count(0)
    choices.get_by_role("button", name="grad_norm").click()
    charts.get_by_role("img", name="grad_norm at step 1000, 2.500").wait_for()
    choices.get_by_role("button", name="f1").click()
    charts.get_by_role("img", name=re.compile("^f1 at")).wait_for(state="detached")
    charts.get_by_label("Smoothing").fill("4")
    charts.get_by_role("img", name=re.compile(r"^loss at step 1000, train 0\.200, .*smooth ")).wait_for()
    charts.get_by_label("Smoothing").fill("0")


def have_one_axis(charts):
    """Training and validation are one chart, over steps or epochs."""
    expect(charts.get_by_role("group", name="val_loss")).to_have_count(0)
    legend = charts.get_by_role("group", name="loss", exact=True).locator(".ba-readout")
    dashed = legend.get_by_role("button", name="val").locator(".ba-dashed")
    expect(dashed).to_have_count(1)  # colour is not all that tells the lines apart
    charts.get_by_label("Draw over").select_option("epoch")
    charts.get_by_role("img", name="loss at step 1000, epoch 5, train 0.200").wait_for()
    charts.get_by_role("img", name="lr at step 1000, epoch 5").wait_for()


def have_one_cursor(charts):
    """The cursor stops at points, and is at the same step in all charts."""
    losses, rates = charts.get_by_role("img", name="loss at"), charts.get_by_role("img", name="lr at")
    box = losses.bounding_box()
    losses.hover(position={"x": box["width"] / 2, "y": 60})
    expect(losses).to_have_attribute("aria-label", re.compile("step (?!1000)"))  # no longer the latest one
    told = re.search(r"step (\d+00),.*train (\S+),", losses.get_attribute("aria-label"))
    assert float(told[2]) == pytest.approx(200 / int(told[1]), abs=1e-3)
    expect(rates).to_have_attribute("aria-label", re.compile(f"^lr at step {told[1]}, "))
    charts.mouse.move(1, 1)
    rates.focus()
    charts.keyboard.press("Home")
    expect(losses).to_have_attribute(
        "aria-label", re.compile("^loss at step 100, train 2.000, val 0.600 at 500")
    )
    charts.keyboard.press("Shift+ArrowRight")
    expect(losses).to_have_attribute("aria-label", re.compile("^loss at step 200, "))
    charts.locator(":focus").blur()
    charts.get_by_role("img", name="loss at step 1000, ").wait_for()


def is_saved(charts, chart, folder):
    """A chart is saved as a table or a picture."""
    for item, suffix in (("Values (CSV)", "csv"), ("Picture (PNG)", "png")):
        chart.get_by_label("Save this chart").click()
        with charts.expect_download() as download:
            chart.get_by_role("button", name=item).click()
        assert download.value.suggested_filename == f"resnet-loss.{suffix}"
        download.value.save_as(folder / suffix)
    rows = list(csv.DictReader((folder / "csv").read_text().splitlines()))
    assert rows[4]["step"] == "500"
    assert (float(rows[4]["loss"]), float(rows[4]["val_loss"])) == (0.4, 0.6)
    assert rows[0]["val_loss"] == ""
    assert (folder / "png").read_bytes().startswith(b"\x89PNG")


def fills_the_screen(charts, chart):
    """A chart fills the screen, and then the page is as before."""
    heights = charts.evaluate(HEIGHTS)
    chart.get_by_label("Full screen").click()
    canvas = chart.locator("canvas")
    half = charts.viewport_size["height"] / 2
    until(lambda: (box := canvas.bounding_box()) and box["height"] > half)  # it is drawn anew
    chart.get_by_label("Full screen").click()
    charts.wait_for_function("() => document.fullscreenElement === null")
    until(lambda: charts.evaluate(HEIGHTS) == heights)


def write_losses(backend, first, last):
    """Writes three steps of the ranks from `first` on."""
    for step in range(1, 4):
        lines = (f"[1,{rank}]<stdout>:step {step} loss {rank + step}\n" for rank in range(first, last))
        backend.write("".join(lines))


def test_a_band_stands_for_many_ranks(open_job, backend):
    write_losses(backend, 0, 16)
    chart = open_job(Job(backend, JOB)).get_by_role("group", name="loss", exact=True)
    expect(chart.locator(".ba-plot")).to_have_attribute("data-ranks", "lines")
    write_losses(backend, 16, 256)
    expect(chart.locator(".ba-plot")).to_have_attribute("data-ranks", "band")
    chart.get_by_role("img", name="loss at step 3, mean 130.5, ranks 3.0–258.0", exact=True).wait_for()

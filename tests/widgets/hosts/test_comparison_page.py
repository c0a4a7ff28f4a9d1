"""Runs side by side in a plain page: their baseline, many of them, and what they are drawn over."""

import re

import pytest
from playwright.sync_api import expect

from batchai_magics.widgets.hosts.opened_pages import open_jobs
from tests.widgets.scripted_cluster import EXPERIMENT, ScriptedCluster, ScriptedLabels

pytestmark = [pytest.mark.slow, pytest.mark.browser]

NAMES = "(rows) => rows.map((row) => row.querySelector('.ba-run-name').textContent)"


@pytest.fixture
def place(tmp_path):
    made = ScriptedCluster(tmp_path)
    made.records = ScriptedLabels()
    return made


@pytest.fixture
def compare(page, place):
    """Opens the comparison of all jobs of the place; it is closed in the end."""
    served = []

    def opened():
        served.append(open_jobs(place, EXPERIMENT))
        page.goto(served[-1].url.replace("/#/", f"/#/compare/{'/'.join(place.jobs)}"))
        return page.locator(".ba-dashboard:visible")

    yield opened
    for each in served:
        each.close()


def test_the_baseline_is_the_run_with_the_tag_until_the_reader_chooses_one(page, compare, place):
    for name, last in (("one", 2.0), ("two", 3.0)):
        place.run(name)
        place.tell(name, "".join(f"step {s} loss {last if s % 2 else 1.0}\n" for s in range(101, 162)))
    view = compare()
    view.get_by_role("img", name="loss, latest: one 2.000, two 3.000", exact=True).wait_for()
    expect(view.locator("tr[data-baseline]")).to_have_count(0)
    loss = "td[data-column='metric:loss']"
    for baseline, other, change in (("one", "two", "+50.0 %"), ("two", "one", "−33.3 %")):
        place.records.tag(other)
        place.records.tag(baseline, "baseline")
        expect(view.locator("tr[data-baseline]")).to_have_count(1)
        expect(view.locator("tr[data-baseline] .ba-run-name")).to_have_text(baseline)
        row = view.locator("tbody tr", has=page.get_by_text(other, exact=True))
        expect(row.locator(loss)).to_contain_text(f"({change})")
    # what is chosen in the page counts more than a tag, and stays
    view.get_by_label("Baseline").select_option("against one")
    expect(view.locator("tr[data-baseline] .ba-run-name")).to_have_text("one")
    expect(view.locator("tbody tr", has=page.get_by_text("two", exact=True)).locator(loss)).to_contain_text(
        "(+50.0 %)"
    )
    view.get_by_label("Baseline").select_option("no baseline")
    expect(view.locator("tr[data-baseline]")).to_have_count(0)
    expect(view.locator("tbody")).not_to_contain_text("%")
    view.get_by_label("Smoothing").fill("8")
    view.get_by_role("img", name=re.compile(r"^loss, latest: one 1\.\d+, two [12]\.\d+$")).wait_for()


def test_many_runs_are_sorted_grouped_and_drawn_against_a_parameter(compare, place):
    for n in range(24):
        place.run(f"t-{n}")
        place.records.tag(f"t-{n}", *(("baseline",) if n == 0 else ()), rate=10.0 ** -(n % 3))
        place.tell(f"t-{n}", "".join(f"step {s} loss {1 / s + n} acc {s / 100}\n" for s in range(1, 51)))
    view = compare()
    expect(view.locator("tbody tr")).to_have_count(24)
    view.locator(".ba-plot canvas").nth(1).wait_for()
    best = view.locator("td[data-best]")
    expect(best.first).to_have_text("0.020")
    place.tell("t-0", "step 51 loss 0.5\n")
    expect(best.first).to_have_text(re.compile(r"^0\.5\d* \(best 0\.020\d*\)$"))
    head = view.locator("th[data-column='metric:loss']")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert view.locator("tbody tr").evaluate_all(NAMES)[:3] == ["t-0", "t-1", "t-2"]
    head.get_by_role("button").click()
    assert view.locator("tbody tr").evaluate_all(NAMES)[0] == "t-23"
    view.get_by_label("Draw over").select_option("parameter:rate")
    view.locator(".ba-plot[data-along=rate] canvas").first.wait_for()
    view.get_by_label("Draw over").select_option("step")
    view.get_by_label("Group by").select_option("rate")
    expect(view.locator("tbody tr")).to_have_count(3)
    expect(view.locator("tbody tr").first).to_contain_text("±")
    view.get_by_role("img", name=re.compile("^loss, latest: rate 0.01 .*rate 0.1 .*rate 1 ")).wait_for()


def test_values_that_were_printed_without_a_position_are_numbered_and_called_no_steps(compare, place):
    for name, accuracy in (("first", 91.5), ("second", 93.1)):
        place.run(name)
        place.tell(name, f"Test accuracy: {accuracy}%\n")
    view = compare()
    view.locator(".ba-plot[data-along=value] canvas").first.wait_for()
    expect(view.locator(".ba-plot[data-along=step]")).to_have_count(0)

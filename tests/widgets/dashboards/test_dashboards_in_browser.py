"""The views of clusters and jobs in a real JupyterLab and in Notebook 7."""

import json

import pytest
from playwright.sync_api import expect

from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SETUP = """
import os, time
os.environ["BATCHAI_HEADLINE_METRIC"] = "images/sec"
from batchai_magics import widgets
from tests.widgets.scripted_cluster import ExecutionState, NodeState, ScriptedCluster
world = ScriptedCluster("{folder}")
world.run("first", ExecutionState.SUCCEEDED, rates=[100, 200, 300], seconds=900)
world.run("second", ExecutionState.FAILED, exit_code=1, seconds=600)
world.run("third", rates=[20, 40, 30], seconds=60)
"""
LABELLED = """
from tests.widgets.scripted_cluster import ScriptedLabels
world.records = ScriptedLabels()
world.records.tag("first", lr=0.1)
world.records.tag("second", "best", lr=0.2)
world.records.tag("third", lr=0.3)
"""
GROW = """
from tests.widgets.scripted_job import step_line
for step in range(4, 9):
    for rank in range(2):
        world.tell("third", step_line(step * 10, rank, 60))
"""
CLUSTER = "widgets.show_dashboard(world.cluster_subject)"
JOBS = "widgets.show_dashboard(world.jobs_subject)"
TWO_LINES_PX = 40  # of the form, which a wide page shows in one
NAMES = "() => [...document.querySelectorAll('.ba-table tbody .ba-open')].map((one) => one.textContent)"


CELLS = ("world.states.append(NodeState.IDLE)", "world.run('fourth', ExecutionState.QUEUED)", GROW)


@pytest.fixture(scope="module")
def lab(module_lab, tmp_path_factory):
    """A notebook that shows a cluster in its second cell and its jobs in the third."""
    setup = SETUP.format(folder=tmp_path_factory.mktemp("cluster")) + LABELLED
    module_lab.open("dashboards", setup, CLUSTER, JOBS, *CELLS, "print(world.patches)")
    for index in range(3):
        module_lab.run(index)
    return module_lab


def names(page):
    return page.evaluate(NAMES)


def test_a_cluster_is_seen_and_resized(lab):
    page = lab.page
    page.get_by_role("list", name="Nodes").get_by_role("listitem").nth(3).wait_for()
    tiles = page.locator(".ba-tile-job")
    until(lambda: tiles.all_inner_texts()[:3] == ["third", "third", "ready for a job"])
    assert page.locator(".ba-scale").bounding_box()["height"] < TWO_LINES_PX
    page.get_by_label("Number of nodes").fill("5")
    page.get_by_role("button", name="Resize").click()
    page.get_by_text("4 of 5 nodes", exact=True).wait_for()
    lab.run(3)
    page.locator(".ba-node-count", has_text="5 nodes").wait_for()
    lab.run(6)
    assert "'targetNodeCount': 5" in lab.text(6)
    assert lab.errors == []


def test_jobs_are_sorted_filtered_opened_and_compared(lab):
    page = lab.page
    page.locator(".ba-spark:not([hidden])").nth(1).wait_for()
    until(lambda: sorted(names(page)) == ["first", "second", "third"])
    assert page.locator("td[data-column='parameters']").all_inner_texts() == ["lr 0.3", "lr 0.2", "lr 0.1"]
    expect(page.locator(".ba-table td[data-column='tags']").nth(1)).to_have_text("best")
    are_compared_when_they_are_ticked(lab)
    lab.run(4)
    page.get_by_role("button", name="fourth").wait_for()
    page.get_by_role("button", name="Metric").click()
    page.wait_for_function(f"() => ({NAMES})()[0] === 'first'")
    page.get_by_role("button", name="1 running").click()
    page.wait_for_function(f"() => ({NAMES})().join() === 'third'")
    page.get_by_role("button", name="third").click()
    page.locator(".ba-opened-view .ba-view").get_by_text("running", exact=True).first.wait_for()
    page.get_by_role("button", name="Close").click()
    page.locator(".ba-opened-view .ba-view").wait_for(state="detached")
    page.get_by_role("button", name="1 running").click()
    page.wait_for_function(f"() => ({NAMES})().length === 4")
    assert lab.errors == []


def are_compared_when_they_are_ticked(lab):
    page = lab.page
    tick(page, "first")
    tick(page, "third")
    opened = page.get_by_role("region", name="Comparison of 2 jobs")
    expect(opened.locator("tbody tr")).to_have_count(2)
    expect(opened.locator("tbody")).to_contain_text("30.0")
    lab.run(5)
    expect(opened.locator("tbody")).to_contain_text("120.0")  # it is live
    opened.get_by_role("img", name="images/sec, latest: ").wait_for()
    tick(page, "second")
    opened = page.get_by_role("region", name="Comparison of 3 jobs")
    expect(opened.locator("tbody tr")).to_have_count(3)
    opened.get_by_role("button", name="Close").click()
    expect(page.locator(".ba-opened-view .ba-view")).to_have_count(0)
    expect(page.get_by_role("checkbox", name="Compare ", checked=True)).to_have_count(0)


def tick(page, job):
    page.get_by_role("checkbox", name=f"Compare {job}").click()


def test_a_saved_notebook_holds_pictures_and_no_log_and_its_views_come_back(lab):
    lab.page.locator(".ba-spark:not([hidden])").nth(1).wait_for()
    saved = lab.save()
    for index, text in ((1, "ready"), (2, "third")):
        snapshot = saved["cells"][index]["outputs"][1]["data"]
        assert "<script" not in "".join(snapshot["text/html"])
        assert text in "".join(snapshot["text/plain"]) or index == 1
    assert len(json.dumps(saved)) < 40_000
    lab.reload_views(2)
    lab.page.locator(".ba-table .ba-open").nth(2).wait_for()
    lab.page.locator(".ba-tile").nth(3).wait_for()
    lab.page.locator(".ba-spark:not([hidden])").nth(1).wait_for()
    expect(lab.page.locator("[data-batchai-snapshot]").first).to_be_hidden()


def test_notebook_7_shows_both(notebook_7, tmp_path):
    notebook_7.open("seven", SETUP.format(folder=tmp_path), CLUSTER, JOBS)
    for index in range(3):
        notebook_7.run(index)
    page = notebook_7.page
    page.locator(".ba-tile").nth(3).wait_for()
    page.locator(".ba-spark:not([hidden])").nth(1).wait_for()
    page.get_by_role("button", name="third").click()
    page.locator(".ba-opened-view .ba-view .ba-badge").wait_for()
    assert notebook_7.errors == []

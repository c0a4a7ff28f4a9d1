"""What a reader can do in the live view, in a real browser."""

import base64
import os
import re
import threading

import nbformat
import pytest
from nbformat import v4
from playwright.sync_api import expect

from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.job_execution import RankExit
from batchai_magics.models.states import ExecutionState
from tests.widgets.scripted_job import JOB
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

FAILING = """%%batchai_job bad --nodes 2 --processes 4
import os, time
def fail():
    raise ValueError("bad batch")
if os.environ["PMI_RANK"] == "2":
    fail()
time.sleep(1000)
"""
SELECTED = """(text) => {
  const state = (document.activeElement.cmTile?.view ?? document.activeElement.cmView?.view)?.state;
  return state?.sliceDoc(state.selection.main.from, state.selection.main.to).trim() === text;
}"""


@pytest.fixture
def job(backend):
    return Job(backend, JOB)


def write_numbers_of_ranks(backend):
    """Writes forty steps of four ranks."""
    for step in range(1, 41):
        for rank in range(4):
            rate = f"{100 + step + rank}.0 +/- 1.0 (jitter = 2.0)"
            backend.write(f"{step}\timages/sec: {rate}\t{5 / step:.3f}\t0.500\t0.700\n", rank=rank)


def test_the_first_failure_leads_to_its_line_of_the_cell(lab):
    widget = "import os; os.environ['BATCHAI_UI'] = 'widget'\n%load_ext batchai_magics"
    lab.open("fails", widget, FAILING)
    lab.run(0)
    lab.run(1)
    panel = lab.page.get_by_role("region", name="first failure")
    lab.page.locator(".ba-problem", has_text="Rank 2, cell line 4: ValueError: bad batch").wait_for()
    panel.get_by_text("The last lines of rank 2 in stderr.txt").wait_for()
    expect(lab.page.get_by_text("Rank 2, cell line 4").locator("visible=true")).to_have_count(1)
    panel.get_by_text("ValueError: bad batch").wait_for()
    expect(panel.get_by_text("3 other processes")).to_have_count(1)
    panel.get_by_role("button", name="cell line 4").click()
    lab.page.wait_for_function(SELECTED, arg='raise ValueError("bad batch")')
    panel.get_by_role("button", name="Show in the log").click()
    lab.page.locator(".ba-row", has_text="Traceback").wait_for()
    assert lab.errors == []


def test_marks_of_a_failure_stay_below_their_code_on_a_narrow_page(open_job, backend, job):
    code, marks = f"    load({'x' * 120!r}, 1)", f"    {'^' * 128}"
    backend.write(f"Traceback\n{code}\n{marks}\nValueError: {'y ' * 100}\n", file="stderr.txt")
    backend.finish(ExecutionState.FAILED, exit_code=1, ranks=[RankExit(0, 1, "node-0")])
    page = open_job(job)
    page.set_viewport_size({"width": 600, "height": 1000})
    lines = page.locator(".ba-words .ba-trace")
    lines.nth(3).wait_for()
    heights = lines.evaluate_all("(all) => all.map((one) => Math.round(one.offsetHeight / 18))")
    assert heights[:3] == [1, 1, 1]
    assert heights[3] > 1  # a message wraps


def test_a_long_log_is_searched_as_a_whole_and_a_long_line_wraps(open_job, backend, job):
    page = open_job(job)
    # more lines than the page keeps in memory
    backend.write("".join(f"line {i:07} of a long log\n" for i in range(200_000)))
    backend.write(f"RuntimeError: {'x' * 2000}\nthe end\n")
    page.locator(".ba-row", has_text="the end").wait_for()
    page.get_by_label("Search the log").fill("0012345 of")
    page.locator(".ba-row.ba-current", has_text="0012345").wait_for()
    page.get_by_label("Search the log").fill("line 0[0-9]*7 of")
    page.get_by_role("button", name="Regular expression").click()
    page.locator(".ba-count", has_text="20,000 of 20,000").wait_for()
    page.get_by_role("button", name="Next match").click()
    page.locator(".ba-row.ba-current", has_text="0000007").wait_for()
    page.get_by_role("button", name="Previous match").click()
    page.locator(".ba-row.ba-current", has_text="0199997").wait_for()
    page.get_by_role("button", name="First error").click()
    row = page.locator(".ba-row.ba-current", has_text="RuntimeError")
    row.wait_for()
    page.get_by_role("button", name="Wrap").click()
    width = page.locator(".ba-log").bounding_box()["width"]
    # a row that is drawn anew has no box for a moment
    until(lambda: (box := row.bounding_box()) and box["height"] > 100 and box["width"] <= width)


def test_a_search_that_takes_long_goes_to_its_match_though_the_log_grows(open_job, page, backend, job):
    waiting, is_released = [], threading.Event()

    def keep_search_waiting(route):
        if route.request.post_data_json["kind"] == "search" and not is_released.is_set():
            waiting.append(route)
        else:
            route.continue_()

    page.clock.install()
    page.route("**/messages?*", keep_search_waiting)
    backend.write("".join(f"line {i:06}\n" for i in range(20_000)))
    open_job(job)
    page.locator(".ba-row", has_text="line 019999").wait_for()
    page.get_by_label("Search the log").fill("line 000123")
    page.locator(".ba-count", has_text="searching").wait_for()
    backend.write("more\n")
    page.locator(".ba-row", has_text="more").wait_for()
    page.clock.run_for(2000)  # as long as it takes to look for more
    (search,) = waiting
    is_released.set()
    search.continue_()
    page.locator(".ba-row.ba-current", has_text="line 000123").wait_for()


def test_ranks_are_read_and_drawn_alone_and_charts_change(open_job, backend, job):
    write_numbers_of_ranks(backend)
    page = open_job(job)
    page.get_by_role("tab", name="rank 2").click()
    page.locator(".ba-row", has_text="images/sec: 142.0").wait_for()
    expect(page.locator(".ba-row", has_text="images/sec: 141.0")).to_have_count(1)  # step 39 of rank 2
    expect(page.locator(".ba-row", has_text="images/sec: 143.0")).to_have_count(0)
    backend.write("of no interest\n", rank=1)
    backend.write("the last word\n", rank=2)
    page.locator(".ba-row", has_text="the last word").wait_for()
    expect(page.locator(".ba-row", has_text="of no interest")).to_have_count(0)
    hide_lines_change_scale_and_draw_other_numbers(page)
    (backend.folder / "stdout.txt").write_text("7\timages/sec: 9.0 +/- 0.0 (jitter = 0.0)\t3.000\n")
    page.get_by_role("img", name="images/sec at step 7, 9.000").wait_for()


def hide_lines_change_scale_and_draw_other_numbers(page):
    losses, rates = page.locator(".ba-chart").nth(0), page.locator(".ba-chart").nth(1)
    rank = rates.get_by_role("button", name=re.compile("^r1 "))
    rank.click()
    expect(rank).to_have_attribute("aria-pressed", "false")
    losses.get_by_role("button", name="log").click()
    page.get_by_label("Charts").get_by_role("button", name="loss").click()
    losses.wait_for(state="visible")
    expect(page.get_by_role("group", name="loss", exact=True)).to_have_count(0)
    page.get_by_role("img", name="top_5 at step 40, mean 0.700").wait_for()


RUNS = "<script>window.hasRun = parent.hasRun = true</script>"
LOADS = "<img src=x onerror='hasRun = true'>"
FRAME = f"<table><tr><th>lr</th></tr><tr><td>0.5{LOADS}</td></tr></table>{RUNS}"
CELL = v4.new_code_cell(
    "frame",
    execution_count=3,
    outputs=[
        v4.new_output("stream", text="10%\r100%\n"),
        v4.new_output(
            "display_data", {"image/svg+xml": f"<svg xmlns='http://www.w3.org/2000/svg'>{RUNS}</svg>"}
        ),
        v4.new_output("execute_result", {"text/html": FRAME, "text/plain": "lr 0.5"}),
        v4.new_output("error", ename="ValueError", evalue="no", traceback=["\x1b[31mValueError\x1b[0m: no"]),
    ],
)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TYPED = {
    "table.csv": f"step,loss\n1,{RUNS}\n",
    "a.json": '{"a": [1, 2]}',
    "page.html": f"{LOADS}{RUNS}",
    "drawing.svg": f"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>{RUNS}</svg>",
    "done.ipynb": nbformat.writes(v4.new_notebook(cells=[v4.new_markdown_cell(f"# Study {RUNS}"), CELL])),
}


def test_files_are_listed_and_looked_into(open_job, backend, job):
    write_numbers_of_ranks(backend)
    backend.write(base64.b64decode(PIXEL), file="loss.png")
    os.mkfifo(backend.folder / "wait")
    for name, text in TYPED.items():
        backend.write(text, file=name)
    page = open_job(job)
    page.get_by_role("tab", name="Files").click()
    pipe_entry = page.get_by_role("treeitem", name="wait (pipe)")
    pipe_entry.wait_for()
    expect(pipe_entry.get_by_role("button")).to_have_count(0)
    page.get_by_role("treeitem", name="loss.png").get_by_role("button").click()
    page.get_by_role("img", name="loss.png").wait_for()
    for name, shown in (("table.csv", "th:has-text('loss')"), ("a.json", "pre:has-text('  \"a\": [')")):
        page.get_by_role("treeitem", name=name).get_by_role("button").click()
        page.locator(f".ba-body {shown}").wait_for()
    page.get_by_role("treeitem", name="page.html").get_by_role("button").click()
    page.locator(".ba-body pre", has_text="<script>").wait_for()
    page.get_by_role("treeitem", name="drawing.svg").get_by_role("button").click()
    page.get_by_role("img", name="drawing.svg").wait_for()
    page.get_by_role("treeitem", name="done.ipynb").get_by_role("button").click()
    notebook = page.locator(".ba-notebook")
    expect(notebook.locator(".ba-prose")).to_contain_text("Study <script>")
    expect(notebook.locator("pre")).to_have_text(["frame", "100%", "ValueError: no"])
    expect(notebook.locator("td")).to_have_text(["0.5"])
    expect(notebook.locator("img")).to_have_count(1)
    assert page.evaluate("window.hasRun") is None
    page.get_by_role("treeitem", name="stdout.txt").get_by_role("button").click()
    page.locator(".ba-body pre", has_text="images/sec: 143.0").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "stdout.txt"
    assert download.value.path().read_text().count("\n") == 160


def test_what_a_cell_saved_is_among_the_files_and_the_cell_itself_in_the_record(open_job, recording_world):
    script = "open('model.txt', 'w').write('weights'); print('saved')"
    page = open_job(recording_world.run("saves --env A=1 --tag wide --args '--lr 0.5'", script))
    page.locator(".ba-row", has_text="saved").wait_for()
    page.get_by_role("tab", name="Files").click()
    tree = page.get_by_role("tree", name="files")
    tree.get_by_role("button", name="node 1/").wait_for()  # what the cell wrote is open, logs are not
    assert tree.get_by_role("button", name="stdout.txt").count() == 0
    tree.get_by_role("button", name="model.txt").click()
    page.locator(".ba-body pre", has_text="weights").wait_for()
    page.get_by_role("tab", name="Record").click()
    record = page.get_by_role("region", name="record")
    record.locator("dd", has_text="saves --env A=1").wait_for()
    record.locator("dd", has_text=re.compile("^wide$")).wait_for()
    record.locator("dd", has_text=re.compile("^lr=0.5$")).wait_for()
    record.get_by_text("saves.py", exact=True).click()
    record.locator("pre", has_text="open('model.txt', 'w')").wait_for()

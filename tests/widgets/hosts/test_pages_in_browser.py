"""A job's own page and the replay of a recording in a real browser."""

import gzip
import json
import re
import threading
from pathlib import Path

import pytest
from playwright.sync_api import expect

from batchai_magics import cell
from batchai_magics.jobs.submit import submit
from batchai_magics.widgets.core.pages import STATIC
from batchai_magics.widgets.hosts.opened_pages import export_html, open_recording
from tests.widgets.axe import violations
from tests.widgets.notebook_jobs import NotebookJob
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture
def running(world):  # a fixture
    job = NotebookJob(world, "paged", "--processes 2")
    yield job
    job.end()


def test_a_page_shows_a_job_live_and_cancels_it(page, running):
    served = running.job.open(browser=False)
    page.goto(served.url)
    page.locator(".ba-row", has_text="rank 1 line").first.wait_for()
    page.locator(".ba-plot canvas").first.wait_for()
    assert page.url == served.url.partition("?token=")[0]
    page.reload()
    page.locator(".ba-badge", has_text="running").wait_for()
    page.get_by_label("Search the log").fill("line 000001")
    page.locator("mark", has_text="line 000001").first.wait_for()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert violations(page, "body", is_recoloured=theme == "dark") == []
    page.get_by_role("button", name="Cancel job").click()
    page.get_by_role("button", name="Yes, cancel it").click()
    expect(page.locator(".ba-badge")).to_have_text("cancelled")
    served.close()


SLOW_LOADER = """
import os, time

def load_batch():
    time.sleep(0.02)

def step():
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        pass

print("up", flush=True)
while True:
    if os.environ["RANK"] == "1":
        load_batch()
    step()
"""


def test_the_button_beside_the_resource_use_profiles_the_ranks(page, world):
    request = cell.parse("slow --processes 2 --toolkit pytorch", SLOW_LOADER, settings=world.settings)
    job = submit(world.backend, request, world.settings).job
    until(lambda: job.log().count("up") == 2)
    served = job.open(browser=False)
    page.goto(served.url)
    other = page.context.browser.new_page()
    other.goto(served.url)
    expect(other.get_by_role("button", name="Profile", exact=True)).to_be_visible()
    page.get_by_role("button", name="Profile", exact=True).click()
    for each in (page, other):
        expect(each.get_by_role("button", name="Profiling …")).to_be_disabled()
    for each in (page, other):
        table = each.get_by_role("region", name="profile of the ranks")
        expect(table.get_by_role("row")).to_have_count(3)
    other.close()
    difference = re.compile(
        "Rank 1 waits|Rank 0 spends"
    )  # of two ranks, one waits as much as the other computes
    expect(page.locator(".ba-profile-sentence")).to_contain_text(difference)
    expect(page.get_by_role("button", name="Profile", exact=True)).to_be_enabled()
    job.cancel()
    expect(page.get_by_role("button", name="Profile", exact=True)).to_be_hidden()
    expect(page.get_by_role("region", name="profile of the ranks")).to_be_visible()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert violations(page, "body", is_recoloured=theme == "dark") == []
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name=".svg").click()
    expect(page.locator(".ba-body img")).to_be_visible()
    served.close()


def test_a_recording_is_replayed_and_scrubbed(page, running, tmp_path):
    path = tmp_path / "run.batchai"
    recording = threading.Thread(target=running.job.record, args=(path,))
    recording.start()
    until(lambda: next(tmp_path.glob(".run.batchai-*"), None))
    running.waits_for(running.log.stat().st_size + 100)
    running.end()
    recording.join()
    exported = export_html(path, tmp_path / "run.html")
    served = open_recording(path)
    page.emulate_media(reduced_motion="no-preference")  # else a replay waits to be started
    for address in (served.url, exported.as_uri()):
        page.goto(address)
        page.get_by_label("Speed of the replay").select_option("100")
        expect(page.locator(".ba-badge")).to_have_text("succeeded")
        page.locator(".ba-row", has_text="rank 0 is done").wait_for()
        page.locator(".ba-plot canvas").first.wait_for()
        expect(page.get_by_role("button", name="Replay")).to_be_visible()
        page.get_by_label("Search the log").fill("rank 1 is done")
        page.locator("mark", has_text="rank 1 is done").first.wait_for()
        page.get_by_label("Search the log").fill("")
        page.get_by_role("tab", name="rank 1").click()
        page.locator(".ba-row", has_text="rank 1 is done").wait_for()
        expect(page.locator(".ba-row", has_text="rank 0")).to_have_count(0)
        page.get_by_label("Time of the recording").fill("0.5")
        expect(page.locator(".ba-badge")).to_have_text("running")
        expect(page.locator(".ba-row", has_text="is done")).to_have_count(0)
        page.get_by_label("Speed of the replay").select_option("20")
        page.get_by_role("button", name="Play").click()
        page.locator(".ba-row", has_text="rank 0 is done").wait_for()
    assert violations(page, "body") == []
    served.close()


RECORDING = Path(__file__).parents[3] / "docs/recordings/training.batchai"
DETACHED = """<!doctype html><script type="module">
import widget from "./job_view.js";
const options = {recording: "./recording", speed: 100};
window.root = document.createElement("div");
widget().render({model: {get: (name) => options[name]}, el: root});
</script>"""


def with_charts(recording, titles):
    """A recording whose view offers a chart of the loss under each of these titles."""
    header, *entries = map(json.loads, gzip.decompress(recording).splitlines())
    for entry in entries:
        if charts := entry.get("state", {}).get("facts", {}).get("charts"):
            entry["state"]["facts"]["charts"] = [{**charts[0], "title": title} for title in titles]
    return gzip.compress("\n".join(map(json.dumps, [header, *entries])).encode())


def test_a_view_that_comes_into_the_page_after_its_data_has_as_many_charts_as_fit(page):
    """A front end renders into an element that it shows later; an ended job sends nothing more by then."""
    recording = with_charts(RECORDING.read_bytes(), "abcde")
    files = {"job_view.js": (STATIC / "job_view.js").read_bytes(), "recording": recording}

    def answer(route):
        body = files.get(route.request.url.rpartition("/")[2], DETACHED)
        route.fulfill(body=body, content_type="text/html" if body is DETACHED else "text/javascript")

    page.emulate_media(reduced_motion="no-preference")  # else the replay waits to be started
    page.route("http://view.test/**", answer)
    page.goto("http://view.test/page.html")
    page.wait_for_function("() => window.root?.querySelector('.ba-play')?.textContent === 'Replay'")
    page.evaluate("() => document.body.append(root)")
    expect(page.locator(".ba-chart")).to_have_count(4)

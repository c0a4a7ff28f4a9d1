"""The page of all jobs in a real browser: from the list to jobs, comparisons and sweeps, and back."""

import pytest
from playwright.sync_api import expect

from batchai_magics.widgets.hosts.opened_pages import open_jobs
from tests.jobs.sweeps.lab import SweepLab
from tests.widgets.axe import violations
from tests.widgets.scripted_cluster import EXPERIMENT, ExecutionState, ScriptedCluster, ScriptedLabels

pytestmark = [pytest.mark.slow, pytest.mark.browser]

NARROW, WIDE = {"width": 500, "height": 900}, {"width": 1200, "height": 900}


@pytest.fixture
def serve():
    """Opens the page of all jobs; it is closed in the end."""
    pages = []

    def opened(backend, home, **options):
        pages.append(open_jobs(backend, home, **options))
        return pages[-1].url

    yield opened
    for each in pages:
        each.close()


@pytest.fixture
def many(tmp_path, monkeypatch):
    """A thousand jobs that have ended, and one that runs."""
    return place_of(tmp_path, monkeypatch, 1000)


@pytest.fixture
def some(tmp_path, monkeypatch):
    """Twelve jobs that have ended, and one that runs."""
    return place_of(tmp_path, monkeypatch, 12)


def place_of(folder, monkeypatch, count):
    monkeypatch.setenv("BATCHAI_HEADLINE_METRIC", "images/sec")
    made = ScriptedCluster(folder)
    made.records = ScriptedLabels()
    for number in range(count):
        rates = [1, 2, number] if number > count - 10 else ()
        made.run(f"job-{number}", ExecutionState.SUCCEEDED, rates=rates, seconds=5000 - 2 * number)
        made.records.tag(f"job-{number}", "odd" if number % 2 else "even", lr=number / 1000)
    made.run("last", rates=[10, 20, 40], seconds=0)
    return made


def rows(page):
    """The rows of the view that is shown."""
    return page.locator("tbody tr:visible")


def test_of_a_thousand_jobs_a_hundred_rows_are_drawn_and_the_list_is_as_it_was_left(page, serve, many):
    page.goto(serve(many, EXPERIMENT))
    expect(rows(page)).to_have_count(100)
    expect(page.locator(".ba-facts")).to_have_text("backend place  ·  the newest 1,000 of 1,001 jobs")
    page.get_by_role("img", name="images/sec from 10.00 to 40.00").wait_for()
    page.get_by_role("button", name="Show 100 more").click()
    expect(rows(page)).to_have_count(200)
    page.get_by_label("Filter by name").fill("odd lr 0.77")
    expect(rows(page)).to_have_count(5)
    page.get_by_label("Filter by name").fill("9")
    page.get_by_role("link", name="job-999", exact=True).click()
    page.get_by_role("link", name="All jobs").wait_for()
    expect(page.locator(".ba-name", has_text="job-999")).to_be_visible()
    assert page.url.endswith("/#/job/job-999")
    assert page.title() == "job-999 · batchai"
    many.run("job-9-new", ExecutionState.QUEUED, seconds=-99)
    page.go_back()
    expect(page.get_by_label("Filter by name")).to_have_value("9")
    page.get_by_role("link", name="job-9-new").wait_for()
    page.go_forward()
    page.locator(".ba-name", has_text="job-999").wait_for()


def test_axe_finds_nothing_in_list_and_comparison_in_any_theme_at_any_width(page, serve, some):
    page.goto(serve(some, EXPERIMENT))
    for name in ("job-9", "job-8", "job-7"):
        page.get_by_role("checkbox", name=f"Compare {name}").click()
    fits_and_has_no_violation(page)
    page.get_by_role("link", name="Compare 3 jobs").click()
    expect(rows(page)).to_have_count(3)
    fits_and_has_no_violation(page)


def fits_and_has_no_violation(page):
    """At each width in a light theme; a dark one changes colours only."""
    for theme, size in (("light", NARROW), ("light", WIDE), ("dark", WIDE)):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size(size)
        assert violations(page, "body", is_recoloured=theme == "dark") == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_an_address_leads_to_its_view_one_of_nothing_says_so_and_a_read_only_page_offers_no_change(
    page, serve, some
):
    url = serve(some, EXPERIMENT).replace("/#/", "/#/compare/job-1/job-2")
    page.goto(url)
    expect(rows(page)).to_have_count(2)
    page.get_by_role("link", name="job-1", exact=True).click()
    page.locator(".ba-name", has_text="job-1").wait_for()
    page.goto(url.partition("#")[0] + "#/job/gone")
    expect(page.get_by_role("alert")).to_have_text("gone")
    page.goto(url.partition("#")[0] + "#/last")
    expect(page.get_by_role("alert")).to_have_text("There is no page /last.")
    expect(page.get_by_role("navigation", name="Pages")).to_have_text("All jobs › last")
    page.get_by_role("link", name="All jobs").click()
    page.get_by_role("link", name="last").wait_for()
    page.goto(serve(some, EXPERIMENT, is_read_only=True).replace("/#/", "/#/job/last"))
    page.get_by_role("button", name='Copy "show" command').wait_for()
    assert page.get_by_role("button", name="Cancel job").count() == 0


def test_a_sweep_is_opened_from_its_trials_and_leads_to_them(page, serve, world):
    sweep = SweepLab(world).run("tune --sweep lr=0.1,0.2,0.3")
    page.goto(serve(world.backend, world.experiment))
    page.get_by_role("link", name="tune", exact=True).click()
    expect(rows(page)).to_have_count(3)
    page.get_by_role("link", name="tune-t1", exact=True).click()
    page.locator(".ba-row", has_text="epoch 2").wait_for()
    assert page.url.endswith("/#/job/tune-t1")
    page.go_back()
    page.get_by_role("button", name="Compare the 3 best").click()
    expect(rows(page)).to_have_count(len(sweep.jobs))
    page.go_back()
    page.go_back()
    expect(rows(page)).to_have_count(3)
    page.get_by_role("checkbox", name="Compare tune-t1").wait_for()

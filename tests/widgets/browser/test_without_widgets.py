"""A front end that cannot draw our widgets shows jobs as HTML, as VS Code and Colab do without their CDN."""

import pytest
from playwright.sync_api import expect

from tests.widgets.lab import Lab

LOAD = "%env BATCHAI_UI={ui}\n%reload_ext batchai_magics"
JOB = """%%batchai_job {name} --toolkit custom
import pathlib, time
print("it runs", flush=True)
while not pathlib.Path({gate!r}).exists():
    time.sleep(0.1)"""

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture
def lab(server, chrome):
    """A page of JupyterLab that gets no anywidget, and with it none of our modules."""
    page = chrome.new_page()
    page.route("**/extensions/anywidget/**", lambda route: route.abort())
    opened = Lab(page, server)
    yield opened
    opened.close()
    page.close()


def test_a_job_is_followed_as_html_until_it_has_ended(lab, tmp_path):
    ways = {ui: JOB.format(name=ui, gate=str(tmp_path / ui)) for ui in ("html", "auto")}
    lab.open("without", *(cell for ui, job in ways.items() for cell in (LOAD.format(ui=ui), job)))
    for number, ui in enumerate(ways):
        for index in (2 * number, 2 * number + 1):
            lab.run(index)
        output = lab.page.locator(".jp-CodeCell").nth(2 * number + 1).locator(".jp-OutputArea")
        expect(output).to_contain_text("running")
        expect(output).to_contain_text("it runs")
        expect(output.get_by_text("javascript error")).to_have_count(int(ui == "auto"))
        (tmp_path / ui).touch()
        expect(output).to_contain_text("succeeded")

"""What views leave behind in a real kernel, and what they say when it is gone."""

import pytest
from playwright.sync_api import expect

from tests.widgets.browser.test_looks import LACKING, SETUP, SHOWN, narrow
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

LOAD = "%reload_ext batchai_magics"
SHOW = "%batchai job show -n eight"
COUNT = """
import threading
from ipywidgets.widgets.widget import _instances
from batchai_magics import widgets
from batchai_magics.widgets.core import publisher
publisher.MAX_REMOVED = 2
known = widgets._publisher() if widgets._publisher.cache_info().currsize else None
threads = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("batchai-"))
views = len(known._outputs) + len(known._frozen) if known else 0
print([views, len(known._pollers) if known else 0, len(_instances), *threads])
"""
NOTHING = "[0, 0, 0]"


def counted(lab, index):
    lab.run(index)
    return lab.text(index)


def show(lab):
    lab.run(1)
    lab.page.locator(".ba-row").first.wait_for()


def test_views_shown_again_and_again_leave_two_threads_and_one_poller(lab, eight_ranks):
    lab.open("leaves", LOAD, SHOW, COUNT)
    assert counted(lab, 2) == NOTHING
    lab.run(0)
    for _ in range(4):
        show(lab)
    # The live one and the two that may come back; of each the view and its layout.
    wanted = "[3, 1, 6, 'batchai-publisher', 'batchai-reader']"
    until(lambda: counted(lab, 2) == wanted)
    lab.run(0)
    until(lambda: counted(lab, 2) == NOTHING)
    assert lab.errors == []


NAMES = "() => [...document.querySelectorAll('.ba-table tbody .ba-open')].map((one) => one.textContent)"
GONE = "The connection to the kernel is gone. Run the cell to see the {} again."


def test_views_whose_kernel_is_gone_say_so_whatever_the_reader_does(lab, tmp_path):
    step = 'world.tell("resnet50-lr-warmup", "step {}/500\\n")\n'
    setup = SETUP.format(folder=tmp_path) + step.format(120) + step.format(121)
    lab.open("gone", setup, *(SHOWN[name] for name in ("running", "cluster", "jobs")))
    for index in range(4):
        lab.run(index)
    page = lab.page
    page.locator(".ba-row").first.wait_for()
    page.get_by_role("list", name="Nodes").get_by_role("listitem").first.wait_for()
    left = page.locator(".ba-dashboard .ba-progress-time", has_text="left")
    left.wait_for()
    lab.restart_kernel()
    notes = [page.get_by_text(GONE.format(what)) for what in ("job", "cluster", "jobs")]
    for note in notes:
        note.wait_for()
    left.wait_for(state="detached")
    expect(page.get_by_role("button", name="resnet50-baseline")).to_be_disabled()
    expect(page.get_by_label("Number of nodes")).to_be_disabled()
    before = page.evaluate(NAMES)
    page.get_by_role("button", name="Job", exact=True).click()  # what is here can still be sorted
    until(lambda: page.evaluate(NAMES) == sorted(before))
    view = page.locator(".ba-view").first
    view.hover()
    page.mouse.move(1, 1)
    view.get_by_role("tab", name="Files").click()
    narrow(page)
    expect(notes[0]).to_be_visible()
    until(lambda: view.evaluate(LACKING) == [])
    assert lab.errors == []

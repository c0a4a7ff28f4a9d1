"""A job that writes 100,000 lines in ten seconds, in a real browser."""

import pytest

from tests.patience import PATIENCE_S
from tests.widgets.log_reader import missing, rank_page
from tests.widgets.page_trace import CATEGORIES, our_tasks

pytestmark = [pytest.mark.slow, pytest.mark.browser]

FLOOD = """
import sys, time
for start in range(0, 100_000, 1000):
    sys.stdout.write("".join(f"line {number:06} {'x' * 18}\\n" for number in range(start, start + 1000)))
    sys.stdout.flush()
    time.sleep(0.1)
"""
LONG_TASK_MS = 100
ROUNDS = 3  # a long task of the page itself, as when it collects garbage, does not come in all of them


def test_a_flood_is_shown_without_a_long_task_and_read_line_by_line(lab, chrome, real_world):
    shown = [f"%batchai job show -n flood{number}" for number in range(ROUNDS)]
    lab.open("flood", "%env BATCHAI_UI=widget\n%load_ext batchai_magics", *shown)
    lab.run(0)
    found = []
    for number in range(ROUNDS):
        job = real_world.submit(f"flood{number} --nodes 1 --processes 1", FLOOD)
        found.append(long_tasks(lab, chrome, number))
        job.wait(PATIENCE_S)
        if not found[-1]:
            break
        lab.clear(1 + number)
    assert [] in found
    log = next(real_world.home.glob(f"shares/**/jobs/{job.name}/*/stdouterr/stdout.txt"))
    assert len(rank_page(log)) == 100_000
    assert missing(lab.page, log) == {}
    assert lab.errors == []


def long_tasks(lab, chrome, number):
    """The long tasks of the page while it shows a flood."""
    chrome.start_tracing(page=lab.page, categories=CATEGORIES)
    lab.run(1 + number)
    lab.page.locator(".ba-row", has_text="line 099999").wait_for()
    tasks = our_tasks(chrome.stop_tracing())
    assert tasks  # the trace has seen the view at work: often, unless the machine has no time for it
    return [task for task in tasks if task.cpu_ms > LONG_TASK_MS]

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


def test_a_flood_is_shown_without_a_long_task_and_read_line_by_line(lab, chrome, real_world):
    lab.open("flood", "%env BATCHAI_UI=widget\n%load_ext batchai_magics", "%batchai job show -n flood")
    lab.run(0)
    job = real_world.submit("flood --nodes 1 --processes 1", FLOOD)
    chrome.start_tracing(page=lab.page, categories=CATEGORIES)
    lab.run(1)
    lab.page.locator(".ba-row", has_text="line 099999").wait_for()
    tasks = our_tasks(chrome.stop_tracing())
    assert tasks  # the trace has seen the view at work: often, unless the machine has no time for it
    assert [task for task in tasks if task.cpu_ms > LONG_TASK_MS] == []
    job.wait(PATIENCE_S)
    log = next(real_world.home.glob("shares/**/jobs/flood/*/stdouterr/stdout.txt"))
    assert len(rank_page(log)) == 100_000
    assert missing(lab.page, log) == {}
    assert lab.errors == []

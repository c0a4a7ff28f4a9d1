"""What the processes of a running job use, in a real page, with a real job."""

import re

import pytest
from playwright.sync_api import expect

from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

UNEVEN = """
import os, time
rank = int(os.environ["PMI_RANK"])
keep = bytearray(b"x") * ((rank + 1) * 40 << 20)
for step in range(1, 100_000):
    began = time.time()
    while time.time() - began < 0.02 * (rank + 1):
        pass
    time.sleep(0.08 - 0.02 * rank)
    rate = 100 - (rank == 3) * 60 + step % 3
    print(f'{{"step": {step}, "images_per_sec": {rate}, "loss": {9 / step}}}', flush=True)
"""
# How many places there are at which a curve begins, and at which its value does.
STARTS = """() => ['.ba-spark', '.ba-use-value'].map((kind) => new Set(
  [...document.querySelectorAll('.ba-use-grid ' + kind)].filter((one) => one.checkVisibility())
    .map((one) => Math.round(one.getBoundingClientRect().left))).size)"""


def test_each_rank_has_curves_in_columns_and_the_summary_has_the_total(open_job, world):
    page = open_job(world.submit("uneven --nodes 2 --processes 4", UNEVEN))
    use = page.locator(".ba-use")
    use.locator("summary").click()
    use.locator(".ba-use-line", has_text=re.compile("rank 3.*CPU.*%.*memory.*MB", re.DOTALL)).wait_for()
    use.locator(".ba-use-line", has_text="machine").wait_for()
    page.locator("svg[aria-label^='CPU of all ranks from']").wait_for()
    page.wait_for_function("document.querySelectorAll('.ba-use-line .ba-spark:not([hidden])').length >= 8")
    use.locator(
        ".ba-use-slow", has_text=re.compile("slower than the others: it (needs|waits)")
    ).first.wait_for()
    words = re.compile(r"^\s*resource use\s+CPU\s+\d+ %\s+memory\s+[\d.]+ [MG]B")
    expect(use.locator("summary")).to_have_text(words, use_inner_text=True)
    for width, columns in ((1400, 4), (500, 2)):
        page.set_viewport_size({"width": width, "height": 1000})
        page.wait_for_function("(width) => innerWidth === width", arg=width)
        until(lambda wanted=[columns] * 2: page.evaluate(STARTS) == wanted)

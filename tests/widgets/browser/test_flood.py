"""A job that writes 30,000 lines in three seconds, in a real browser."""

import pytest

from tests.patience import PATIENCE_S
from tests.widgets.log_reader import missing, rank_page

pytestmark = [pytest.mark.slow, pytest.mark.browser]

FLOOD = """
import sys, time
for start in range(0, 30_000, 1000):
    sys.stdout.write("".join(f"line {number:06} {'x' * 18}\\n" for number in range(start, start + 1000)))
    sys.stdout.flush()
    time.sleep(0.1)
"""
# A task takes one message or draws one frame: neither grows with the log. Its time would tell of the machine.
WATCH = """() => {
  const rows = (window.batchaiRows = { ofFrame: 0, most: 0 });
  const observer = new MutationObserver((changes) => {
    const added = changes.flatMap(({ addedNodes }) => [...addedNodes]);
    rows.ofFrame += added.filter(({ classList }) => classList?.contains('ba-row')).length;
  });
  observer.observe(document.body, { childList: true, subtree: true });
  const look = () => {
    rows.most = Math.max(rows.most, rows.ofFrame);
    rows.ofFrame = 0;
    if (window.batchaiRows === rows) requestAnimationFrame(look);
    else observer.disconnect();
  };
  requestAnimationFrame(look);
}"""
WATCHED = """() => {
  const { most, ofFrame } = window.batchaiRows;
  window.batchaiRows = null;
  return Math.max(most, ofFrame);
}"""
MOST_ROWS = 100  # of a frame: those in sight and some beyond
MOST_BYTES = 140_000  # of a message: the first one brings more than those that follow


@pytest.fixture
def sizes(lab):
    """The sizes of the messages of widgets that the page gets."""
    found = []

    def note(data):
        if isinstance(data, bytes) and b'"comm_msg"' in data:
            found.append(len(data))

    def listen(socket):
        socket.on("framereceived", note)

    lab.page.on("websocket", listen)
    yield found
    lab.page.remove_listener("websocket", listen)


def test_a_flood_is_shown_little_by_little_and_read_line_by_line(lab, real_world, sizes):
    lab.open("flood", "%env BATCHAI_UI=widget\n%load_ext batchai_magics", "%batchai job show -n flood")
    lab.run(0)
    lab.page.evaluate(WATCH)
    job = real_world.submit("flood --nodes 1 --processes 1", FLOOD)
    lab.run(1)
    lab.page.locator(".ba-row", has_text="line 029999").wait_for()
    assert 0 < lab.page.evaluate(WATCHED) <= MOST_ROWS
    assert 0 < max(sizes) <= MOST_BYTES
    job.wait(PATIENCE_S)
    log = next(real_world.home.glob("shares/**/jobs/flood/*/stdouterr/stdout.txt"))
    assert len(rank_page(log)) == 30_000
    assert missing(lab.page, log) == {}
    assert lab.errors == []

"""A real job whose dicts are on stdout and whose bar, which tells their steps, is on stderr."""

import pytest

from tests.world import World, world

pytestmark = pytest.mark.slow

__all__ = ["world"]

SCRIPT = """
import logging, sys, time

logging.basicConfig()
steps, drawn = 24, 0.0

def draw(done):
    sys.stderr.write("\\r 9%%|#    | %d/%d [00:02<00:10,  4.19it/s]" % (done, steps))
    sys.stderr.flush()

draw(0)
for done in range(1, steps + 1):
    time.sleep(0.03)
    if time.monotonic() - drawn > 0.1:
        draw(done)
        drawn = time.monotonic()
    if done % 5 == 0:
        sys.stderr.write("\\r" + " " * 40 + "\\r")
        sys.stderr.flush()
        print({"loss": 5.0 / done, "epoch": round(done * 3 / steps, 2)}, flush=True)
        draw(done)
sys.stderr.write("\\n")
logging.warning("step 24: accuracy 0.75")
"""


def test_each_log_tells_what_the_other_does_not(world: World) -> None:
    table = world.run("train", SCRIPT).metrics(tidy=True)
    found = {(row.metric, row.step) for row in table.itertuples()}
    assert found == {("loss", 5), ("loss", 10), ("loss", 15), ("loss", 20), ("accuracy", 24)}

"""Sweeps on a local backend of the test's own."""

import pytest

from batchai_magics.cell import Notebook
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.jobs.sweeps.sweep_handle import Sweep
from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep
from tests.patience import PATIENCE_S
from tests.world import World

LOSS = """
import os

for epoch in range(3):
    print(f"epoch {epoch} val_loss {float(os.environ['PARAM_LR']) * (3 - epoch):.4f}")
"""


class SweepLab:
    """Submits cells of a notebook with sweeps."""

    def __init__(self, world: World) -> None:
        self.world, self.note = world, ""

    def submit(self, line: str, script: str = LOSS, **names: object) -> Sweep:
        settings = self.world.settings
        request = parse_sweep(line, script, settings=settings, notebook=Notebook(names=names))
        submitted = submit_sweep(self.world.backend, request, settings)
        self.note = submitted.note
        return submitted.sweep

    def run(self, line: str, script: str = LOSS, **names: object) -> Sweep:
        return self.submit(line, script, **names).wait(PATIENCE_S)

    def found(self, name: str) -> Sweep:
        """The sweep as another process opens it."""
        return Sweep.find(self.world.backend, name, self.world.settings)


@pytest.fixture
def lab(world: World) -> SweepLab:
    return SweepLab(world)

"""What a page asks is answered, whatever the publisher does at that moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from batchai_magics.jobs.job_model import JobModel
from batchai_magics.widgets.core.cell_output import CellOutput
from batchai_magics.widgets.core.publisher import Publisher
from tests.widgets.core.test_model_poller import Scripted
from tests.world import until


class FreezingOutput(CellOutput):
    """An output that is asked something while it freezes, when nothing else is left to do."""

    def __init__(self, publisher: Publisher, model: JobModel) -> None:
        super().__init__("asked", model, clock=time.monotonic)
        self.publisher = publisher
        self.questions, self.answers = 0, 0

    def open(self) -> None:
        """Nothing to show."""

    def send_next(self, limit_bytes: int) -> int:
        """Freezes, and has the answer ready and told before that is done."""
        is_told = threading.Event()
        self.publisher.run_in_background(self.ask)
        self.publisher.run_in_background(is_told.set)  # runs when what came before it was told
        is_told.wait()
        self.is_frozen = True
        return 0

    def ask(self) -> None:
        self.questions += 1

    def republish(self) -> int:
        """Sends the answers that are there."""
        sent = self.questions - self.answers
        self.answers = self.questions
        return sent

    def on_cell_end(self, wait_for: object) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
        self.is_closed = True

    def _render(self) -> dict[str, str]:
        return {}


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    publisher = Publisher().start()
    yield publisher
    publisher.close()


def test_request_that_arrives_while_the_output_freezes_is_answered(publisher: Publisher) -> None:
    output = FreezingOutput(publisher, publisher.model("asked", lambda: JobModel(Scripted())))
    publisher.add(output)
    until(lambda: output.is_frozen)
    until(lambda: output.answers == 1)

"""The kernel's one thread that polls models for all views and sends to their pages."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar, cast

from batchai_magics.widgets.core.cell_output import PublishedOutput
from batchai_magics.widgets.core.flow_control import Budget
from batchai_magics.widgets.core.view_stream import TICK_S, ModelPoller, PolledModel, stopped_message

_log = logging.getLogger(__name__)

UNWATCHED_TICK_S = 2.0  # between two steps while no page shows a view
MAX_FROZEN = 16  # frozen outputs that are published again when a page comes back
MAX_REMOVED = 16  # outputs without a page, which may come back

AnyModel = TypeVar("AnyModel", bound=PolledModel)


class Publisher:
    """Polls each model once for all its views, and sends within one budget.

    One thread polls and sends, another runs tasks that may block; `close` ends both.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, budget: Budget | None = None) -> None:
        self.clock = clock
        self._budget = budget or Budget(clock)
        self._changed = threading.Condition()
        self._pollers: dict[str, ModelPoller] = {}
        self._outputs: list[PublishedOutput] = []
        self._frozen: list[PublishedOutput] = []
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._is_closed = False
        self._has_work = False  # another step was requested

    def start(self) -> Publisher:
        """Starts the two threads."""
        self.run_in_background(_load_parser)
        for name, run in (("batchai-publisher", self._run_steps), ("batchai-reader", self._run_tasks)):
            threading.Thread(target=run, name=name, daemon=True).start()
        return self

    def model(self, key: str, make: Callable[[], AnyModel]) -> AnyModel:
        """Returns the model that all views of `key` share, created by `make` if there is none.

        `make` may wait for the backend; other views are updated meanwhile.
        """
        with self._changed:
            if poller := self._pollers.get(key):
                poller.had_output = False  # kept until its output is added
                return cast("AnyModel", poller.model)
        new_poller = ModelPoller(make())
        with self._changed:
            poller = self._pollers.setdefault(key, new_poller)
            poller.had_output = False
            return cast("AnyModel", poller.model)

    def add(self, output: PublishedOutput) -> None:
        """Keeps an output up to date from now on."""
        with self._changed:
            self._outputs.append(output)
            for poller in self._pollers.values():
                poller.had_output = poller.had_output or poller.model is output.model
            self._request_step()

    def run_in_background(self, task: Callable[[], None]) -> None:
        """Queues a task for the thread that may block, then sends what it produced."""
        self._tasks.put(task)

    def outputs(self, key: str | None = None) -> list[PublishedOutput]:
        """The outputs that are not frozen: all, or one key's."""
        with self._changed:
            return [output for output in self._outputs if key is None or output.key == key]

    def wait_for(self, is_met: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until `is_met` is true after a step, or the timeout; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(is_met, timeout_s)

    def step(self) -> None:
        """Polls the models that are due and sends what the budget allows."""
        now = self.clock()
        with self._changed:
            pollers, outputs, frozen = list(self._pollers.values()), list(self._outputs), list(self._frozen)
        watched = {id(output.model) for output in outputs if not output.is_unwatched}
        for poller in pollers:
            if id(poller.model) in watched or not poller.had_output:
                poller.poll(now)
        self._send(outputs)
        for output in frozen:
            # An output that sends nothing must not use up the budget.
            if sent_bytes := _send_safely(output, output.republish):
                self._budget.spend(sent_bytes)
        with self._changed:
            self._retire_outputs()
            self._changed.notify_all()

    def close(self) -> None:
        """Freezes and closes all outputs, and ends the threads."""
        with self._changed:
            outputs = [*self._outputs, *self._frozen]
            self._is_closed = True
            self._outputs, self._frozen = [], []
            self._pollers.clear()
            self._changed.notify_all()
        self._tasks.put(None)
        for output in outputs:
            _close(output)

    def _send(self, outputs: list[PublishedOutput]) -> None:
        """Sends messages round-robin, until no output has any or the budget is spent."""
        waiting = outputs
        while waiting:
            senders: list[PublishedOutput] = []
            for output in waiting:
                limit = self._budget.left_bytes
                if not limit:
                    with self._changed:  # outputs that have sent come last in the next step
                        self._outputs.sort(key=lambda output: output in senders)
                    return
                sent_bytes = _send_safely(output, partial(output.send_next, limit))
                if sent_bytes:
                    self._budget.spend(sent_bytes)
                    senders.append(output)
            waiting = senders

    def _retire_outputs(self) -> None:
        """Moves frozen outputs aside, closes the oldest ones without a page, and drops unused models."""
        _close_oldest([output for output in self._outputs if output.is_removed], MAX_REMOVED)
        live: list[PublishedOutput] = []
        frozen: list[PublishedOutput] = []
        for output in (*self._frozen, *self._outputs):
            if not output.is_frozen:  # read once: another thread may freeze it meanwhile
                live.append(output)
            elif not output.is_closed:
                frozen.append(output)
        self._outputs, self._frozen = live, _close_oldest(frozen, MAX_FROZEN)
        used = {id(output.model) for output in self._outputs}
        self._pollers = {
            key: poller
            for key, poller in self._pollers.items()
            if id(poller.model) in used or not poller.had_output
        }

    def _request_step(self) -> None:
        """Makes another step follow, also if one is running; the caller holds the lock."""
        self._has_work = True
        self._changed.notify_all()

    def _run_steps(self) -> None:
        while not self._is_closed:
            self._has_work = False
            self.step()
            with self._changed:
                if self._is_closed or self._has_work:  # set during the step: nothing would end the wait
                    continue
                is_awake = any(not output.is_unwatched for output in self._outputs)
                self._changed.wait(TICK_S if is_awake else UNWATCHED_TICK_S if self._outputs else None)

    def _run_tasks(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:  # noqa: BLE001  # a thread's traceback would land in some cell's output
                _log.debug("a request of the live view failed", exc_info=True)
            with self._changed:
                self._request_step()


def _load_parser() -> None:
    """Imports what parsing the first log line needs."""
    from batchai_magics.metrics import Parser

    Parser().feed(b"\n")


def _close_oldest(outputs: list[PublishedOutput], count: int) -> list[PublishedOutput]:
    """Closes all but the newest outputs and returns those."""
    for old in outputs[:-count]:
        _close(old)
    return outputs[-count:]


def _send_safely(output: PublishedOutput, send: Callable[[], int]) -> int:
    """Calls `send` and returns the bytes sent; an output that fails must not stop the others.

    A live output that fails is frozen as it is; a frozen one is closed.
    """
    try:
        return send()
    except Exception as error:  # noqa: BLE001  # one failing output must not stop the others
        _log.debug("a live view failed", exc_info=True)
        if output.is_frozen:
            _close(output)
        else:
            output.model.report_problem(stopped_message(error))
            output.is_frozen = True
        return 0


def _close(output: PublishedOutput) -> None:
    try:
        output.close()
    except Exception:  # noqa: BLE001  # it is dropped all the same
        _log.debug("a live view cannot be closed", exc_info=True)
    output.is_closed = True

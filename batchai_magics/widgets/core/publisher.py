"""The one thread of a kernel that watches jobs for its views and sends to the page."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from batchai_magics.follow import LONGEST_S
from batchai_magics.widgets.core.budget import Budget
from batchai_magics.widgets.core.feed import TICK_S, Feed, Source, Watch, stopped
from batchai_magics.widgets.core.showing import Showing

_log = logging.getLogger(__name__)

ASLEEP_S = 2.0  # between two rounds while nobody looks
FROZEN_KEPT = 16  # views that are published again when a page comes back
GONE_KEPT = 16  # views without a page, which may be opened again

AnyFeed = TypeVar("AnyFeed", bound=Feed[Any])


class Publisher:
    """Watches each job once, and sends within one budget.

    It has two threads, one that watches and sends and one for what may block; they end with `close`.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, budget: Budget | None = None) -> None:
        self.clock = clock
        self._budget = budget or Budget(clock)
        self._changed = threading.Condition()
        self._watches: dict[str, Watch] = {}
        self._showings: list[Showing] = []
        self._frozen: list[Showing] = []
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._is_closed = False

    def start(self) -> Publisher:
        """Starts the two threads."""
        self.do(_load_parser)
        for name, run in (("batchai-publisher", self._publish), ("batchai-reader", self._read)):
            threading.Thread(target=run, name=name, daemon=True).start()
        return self

    def feed(
        self, key: str, make: Callable[[], tuple[Source, AnyFeed]], *, longest_s: float = LONGEST_S
    ) -> AnyFeed:
        """The feed of a thing: the one that its views share, or a new one.

        While nothing happens, the source is asked every `longest_s` seconds.
        """
        with self._changed:
            if key not in self._watches:
                self._watches[key] = Watch(*make(), longest_s=longest_s)
            return cast("AnyFeed", self._watches[key].feed)

    def add(self, showing: Showing) -> None:
        """Keeps a view up to date from now on."""
        with self._changed:
            self._showings.append(showing)
            for watch in self._watches.values():
                watch.is_seen = watch.is_seen or watch.feed is showing.feed
            self._changed.notify_all()

    def do(self, task: Callable[[], None]) -> None:
        """Runs a task soon, where it may block, then looks at once what there is to send."""
        self._tasks.put(task)

    def showings(self, key: str | None = None) -> list[Showing]:
        """The views that are not frozen: of one thing, or all."""
        with self._changed:
            return [s for s in self._showings if key is None or s.key == key]

    def wait_for(self, is_met: Callable[[], bool], timeout_s: float) -> bool:
        """Waits, at most so long, until a round of the publisher has made `is_met` true."""
        with self._changed:
            return self._changed.wait_for(is_met, timeout_s)

    def step(self) -> None:
        """One round: polls the jobs that are due, sends what the budget allows."""
        now = self.clock()
        with self._changed:
            watches, showings, frozen = list(self._watches.values()), list(self._showings), list(self._frozen)
        awake = {id(showing.feed) for showing in showings if not showing.is_asleep}
        for watch in watches:
            if id(watch.feed) in awake or not watch.is_seen:
                watch.poll(now)
        self._send(showings)
        for showing in frozen:
            if sent := _tried(
                showing, showing.republish
            ):  # what sends nothing must not use up the others' messages
                self._budget.spend(sent)
        with self._changed:
            self._sort_out()
            self._changed.notify_all()

    def close(self) -> None:
        """Ends all views as they stand, and the threads."""
        with self._changed:
            showings = [*self._showings, *self._frozen]
            self._is_closed = True
            self._showings, self._frozen = [], []
            self._watches.clear()
            self._changed.notify_all()
        self._tasks.put(None)
        for showing in showings:
            _close(showing)

    def _send(self, showings: list[Showing]) -> None:
        """One message for each view in turn, until nobody has any or the budget is spent."""
        waiting = showings
        while waiting:
            served: list[Showing] = []
            for showing in waiting:
                limit = self._budget.left_bytes
                if not limit:
                    self._put_behind(served)
                    return
                sent = _tried(showing, partial(showing.send_next, limit))
                if sent:
                    self._budget.spend(sent)
                    served.append(showing)
            waiting = served

    def _put_behind(self, served: list[Showing]) -> None:
        """Lets those that got nothing be the first of the next round."""
        with self._changed:
            self._showings.sort(key=lambda showing: showing in served)

    def _sort_out(self) -> None:
        """Puts frozen views aside and forgets what nobody looks at."""
        _close_oldest([showing for showing in self._showings if showing.is_gone], GONE_KEPT)
        self._showings, frozen = _split([*self._frozen, *self._showings])
        self._frozen = _close_oldest(frozen, FROZEN_KEPT)
        self._forget_watches()

    def _forget_watches(self) -> None:
        used = {id(showing.feed) for showing in self._showings}
        self._watches = {
            key: watch for key, watch in self._watches.items() if id(watch.feed) in used or not watch.is_seen
        }

    def _publish(self) -> None:
        while not self._is_closed:
            self.step()
            with self._changed:
                if self._is_closed:  # during the round: nothing would end a wait that begins now
                    return
                is_awake = any(not showing.is_asleep for showing in self._showings)
                self._changed.wait(TICK_S if is_awake else ASLEEP_S if self._showings else None)

    def _read(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:  # noqa: BLE001  # a traceback from a thread would land in some cell's output
                _log.debug("a request of the live view failed", exc_info=True)
            with self._changed:
                self._changed.notify_all()


def _load_parser() -> None:
    """Loads what the first line of a log would otherwise wait for: numpy, above all."""
    from batchai_magics.metrics import Parser

    Parser().feed(b"\n")


def _split(showings: list[Showing]) -> tuple[list[Showing], list[Showing]]:
    """The live ones, and the frozen ones that may be published again."""
    live: list[Showing] = []
    frozen: list[Showing] = []
    for showing in showings:
        if not showing.is_frozen:  # asked once: another thread may freeze it meanwhile
            live.append(showing)
        elif not showing.is_closed:
            frozen.append(showing)
    return live, frozen


def _close_oldest(showings: list[Showing], kept: int) -> list[Showing]:
    """Closes all but the newest ones, and gives those."""
    for old in showings[:-kept]:
        _close(old)
    return showings[-kept:]


def _tried(showing: Showing, send: Callable[[], int]) -> int:
    """What a view has sent, in bytes. One that cannot be drawn must not end the others.

    A live one stays as it is; one that was frozen is closed.
    """
    try:
        return send()
    except Exception as error:  # noqa: BLE001  # whatever is wrong with one view, the others go on
        _log.debug("a live view failed", exc_info=True)
        if showing.is_frozen:
            _close(showing)
        else:
            showing.feed.complain(stopped(error))
            showing.is_frozen = True
        return 0


def _close(showing: Showing) -> None:
    try:
        showing.close()
    except Exception:  # noqa: BLE001  # it is forgotten all the same
        _log.debug("a live view cannot be closed", exc_info=True)
    showing.is_closed = True

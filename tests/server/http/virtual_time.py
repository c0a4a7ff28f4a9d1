"""An event loop that sleeps for nobody: its clock jumps to when the next timer is due."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

import anyio


class VirtualTime(asyncio.SelectorEventLoop):
    """A loop whose clock moves only while everybody sleeps; `naps` gets how long each time."""

    def __init__(self, naps: list[float]) -> None:
        class Selector(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> Any:
                if not (ready := super().select(0)) and timeout:
                    naps.append(timeout)
                return ready

        self._naps = naps
        super().__init__(Selector())

    def time(self) -> float:
        return sum(self._naps)


def run(work: Callable[..., Awaitable[Any]], *arguments: object, naps: list[float] | None = None) -> Any:
    """What `work` returns on such a loop."""
    slept: list[float] = [] if naps is None else naps
    return anyio.run(work, *arguments, backend_options={"loop_factory": lambda: VirtualTime(slept)})

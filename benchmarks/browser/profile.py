"""Whose code ran in the long tasks of a page: a CPU profile by Chromium's sampling profiler."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

VIEW_URL = "blob:"  # anywidget imports the module of a view from a Blob; nothing of JupyterLab's is one


@dataclass(frozen=True)
class LongTask:
    """A task of more than 50 ms, in milliseconds since the page's navigation."""

    start_ms: float
    duration_ms: float


class Profile:
    """What `Profiler.stop` returns: sampled stacks, and their times in microseconds of a monotonic clock."""

    def __init__(self, profile: dict[str, Any]) -> None:
        self._times_us = [profile["startTime"] + passed for passed in accumulate(profile["timeDeltas"])]
        self._samples: list[int] = profile["samples"]
        self._in_views = _below_views({node["id"]: node for node in profile["nodes"]})

    def view_samples(self, task: LongTask, navigation_s: float) -> int:
        """How many samples of a task have a frame of a view, given when the page was navigated to.

        No samples are taken while the thread waits for a processor, as it does for much of a task under load.
        """
        start_us = navigation_s * 1e6 + task.start_ms * 1000
        first = bisect_left(self._times_us, start_us)
        last = bisect_left(self._times_us, start_us + task.duration_ms * 1000)
        return sum(sample in self._in_views for sample in self._samples[first:last])


def _below_views(nodes: dict[int, dict[str, Any]]) -> set[int]:
    """The nodes of the call tree that are functions of a view, or were called by one."""
    found: set[int] = set()
    waiting = [id for id, node in nodes.items() if node["callFrame"]["url"].startswith(VIEW_URL)]
    while waiting:
        id = waiting.pop()
        found.add(id)
        waiting += nodes[id].get("children", [])
    return found

"""What a page's main thread did while something went on, by Chromium's own trace.

Tasks are measured in CPU time: a machine that has other work to do makes none of them longer.
"""

import bisect
import json
from dataclasses import dataclass

CATEGORIES = [
    "toplevel",
    "disabled-by-default-devtools.timeline",
    "disabled-by-default-v8.cpu_profiler",
]
TASKS = ("RunTask", "ThreadControllerImpl::RunTask")
OURS = "blob:"  # where a page has the modules of its widgets from


@dataclass(frozen=True)
class Task:
    """A task of the main thread that ran code of ours."""

    cpu_ms: float
    at_us: int


def our_tasks(trace):
    """The tasks in which code of ours ran, whatever else they did."""
    events = json.loads(trace)["traceEvents"]
    tasks = []
    for profile in (event for event in events if event["name"] == "Profile"):
        times = _our_times(profile, events)
        thread = (profile["pid"], profile["tid"])
        for event in events:
            if event["name"] in TASKS and (event["pid"], event["tid"]) == thread and "tdur" in event:
                start, end = event["ts"], event["ts"] + event["dur"]
                if bisect.bisect_left(times, start) < bisect.bisect_right(times, end):
                    tasks.append(Task(event["tdur"] / 1000, start))
    return tasks


def _our_times(profile, events):
    """When samples of a profile found code of ours on the stack."""
    now = profile["args"]["data"]["startTime"]
    is_ours, times = {}, []
    chunks = [e for e in events if e["name"] == "ProfileChunk" and e["id"] == profile["id"]]
    for chunk in sorted((c for c in chunks if c["pid"] == profile["pid"]), key=lambda c: c["ts"]):
        data = chunk["args"]["data"]
        for node in data.get("cpuProfile", {}).get("nodes", ()):
            own = node["callFrame"].get("url", "").startswith(OURS)
            is_ours[node["id"]] = own or is_ours.get(node.get("parent"), False)
        samples = data.get("cpuProfile", {}).get("samples", ())
        for sample, delta in zip(samples, data.get("timeDeltas", ()), strict=True):
            now += delta
            if is_ours.get(sample):
                times.append(now)
    return sorted(times)

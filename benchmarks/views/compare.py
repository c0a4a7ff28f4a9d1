"""A comparison of 200 runs with 1,000 points each, in Chromium: its first paint, and an update of one run.

The first paint counts from the data being in the page to the end of the frame that shows it; an update is the
time of the page's thread, of ten in a second. Both are held against matplotlib's figure of the same runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from batchai_magics.metrics import Comparison, compare, read_metrics
from batchai_magics.metrics.charts.figure import figure_png
from batchai_magics.widgets.comparison.comparison_view import ComparisonModel, ComparisonStream
from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.view_stream import PageData, ViewStream
from benchmarks.row import Row, table

RUNS, POINTS = 200, 1000
UPDATES = 50
CHROMIUM = "/usr/bin/chromium"
PAGE = """async ([script, style, state, messages, update, count, source, shown]) => {
  const change = new Function('state', 'tell', 'update', 'i', source); // of a trait or message, for update i
  document.head.append(Object.assign(document.createElement('style'), { textContent: style }));
  const url = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
  const view = (await import(url)).default;
  const listeners = {};
  const model = {
    get: (name) => state[name],
    on: (event, call) => (listeners[event] ??= []).push(call),
    off: () => {},
    send: () => {},
  };
  const tell = (event, content) => (listeners[event] ?? []).forEach((call) => call(content));
  let spent = 0;
  const timed = (call) => {
    const from = performance.now();
    call();
    queueMicrotask(() => (spent += performance.now() - from)); // uPlot draws in an earlier microtask
  };
  const request = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (call) => request((time) => timed(() => call(time)));
  const frame = () => new Promise((done) => request(() => {
    const end = new MessageChannel();
    end.port1.onmessage = done;
    end.port2.postMessage(0);
  }));
  const root = document.body.appendChild(document.createElement('div'));
  await frame();
  const began = performance.now();
  view.render({ model, el: root });
  for (const message of messages) tell('msg:custom', message);
  while (!root.querySelector(shown)) await frame();
  const first = performance.now() - began;
  await new Promise((done) => setTimeout(done, 1000));
  spent = 0;
  for (let i = 0; i < count; i += 1) {
    timed(() => change(state, tell, update, i));
    await new Promise((done) => setTimeout(done, 100));
  }
  return { first, update: spent / count, rows: root.querySelectorAll('tbody tr').length };
}"""
CHANGE = """
update.runs[0].metrics.loss[0][2][0] = 5 + i / 100;
tell('msg:custom', structuredClone(update));
state.rows = state.rows.map((row, k) => (k ? row : { ...row, steps: 2000 + i }));
tell('change:rows');
"""


def rows(count: int = RUNS, points: int = POINTS, updates: int = UPDATES) -> Iterator[Row]:
    """The two times, each against the figure."""
    value = runs(count, points)
    began = time.perf_counter()
    figure_png(value.plot())
    figure_ms = (time.perf_counter() - began) * 1000
    told = in_page(value, updates)
    what = f"{count} runs of {points:,} points in the page"
    yield Row(f"{what}: first paint", told["first"], "matplotlib PNG", figure_ms, "ms")
    yield Row(f"{what}: update of one run", told["update"], "matplotlib PNG", figure_ms, "ms")


def runs(count: int, points: int) -> Comparison:
    """The runs, each with two metrics at each of its steps."""
    logs = {
        f"run-{n}": "".join(
            f"step {s} loss {5 / s + n / 100:.4f} acc {1 - 1 / s:.4f}\n" for s in range(1, points + 1)
        )
        for n in range(count)
    }
    return compare({name: read_metrics(text.encode()) for name, text in logs.items()})


def in_page(value: Comparison, updates: int) -> dict[str, Any]:
    """What the page measured."""
    model = ComparisonModel(value.runs)
    view = ComparisonStream(model, work=lambda task: task(), clock=time.monotonic)
    state = {**view.state, "view_id": "bench"}
    messages = first_messages(view)
    update = {"kind": "lines", "runs": [messages[0]["runs"][0]]}
    found = measured("comparison_view", state, messages, update, CHANGE, updates=updates)
    assert found["rows"] == len(value.runs)
    return found


def first_messages(stream: ViewStream) -> list[PageData]:
    """What a page is sent beside the state when it opens the view."""
    stream.receive({"kind": "ready", "page": "bench", "turn": 1})
    return [batch.content for batch in iter(lambda: stream.next_message(1 << 20), None)]


def measured(
    name: str,
    state: object,
    messages: object,
    update: object,
    change: str,
    *,
    updates: int,
    shown: str = "canvas",
) -> dict[str, Any]:
    """The times of a view's first paint, which has an element `shown`, and of updates by `change`."""
    from playwright.sync_api import sync_playwright

    arguments = [pages.script(name), pages.style(name), state, messages, update, updates, change, shown]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.set_content("<html><body></body></html>")
        found: dict[str, Any] = page.evaluate(PAGE, json.loads(json.dumps(arguments)))
        browser.close()
    return found


if __name__ == "__main__":
    print(table(rows()))

import assert from "node:assert/strict";
import { test } from "node:test";

import { RunData } from "../../../../batchai_magics/widgets/frontend/comparison/run_charts.js";

/** @typedef {import("../../../../batchai_magics/widgets/frontend/core/messages.d.ts").Segment} Segment */

test("a segment has its own times, and images by step as all have", () => {
  const data = new RunData();
  /** @type {Segment[]} */
  const folds = [0, 60].map((at) => ["", [10, 20], [0.5, 0.4], { time: [[10, 20], [at, at + 1]] }]);
  data.take({ run: 0, metrics: { loss: folds }, scales: { images: [[10, 20], [320, 640]] } });
  assert.deepEqual(["time", "images", "epoch"].map((name) => data.has(name)), [true, true, false]);
  assert.deepEqual(folds.map((fold) => data.xOf(fold, "time")), [[0, 1], [60, 61]]);
  assert.deepEqual(folds.map((fold) => data.xOf(fold, "images")), [[320, 640], [320, 640]]);
  assert.deepEqual(folds.map((fold) => data.xOf(fold, "epoch")), [[], []]);
});

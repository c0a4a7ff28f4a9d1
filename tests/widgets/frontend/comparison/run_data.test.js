import assert from "node:assert/strict";
import { test } from "node:test";

import { RunData } from "../../../../batchai_magics/widgets/frontend/comparison/run_charts.js";

/** @typedef {import("../../../../batchai_magics/widgets/frontend/core/messages.d.ts").Segment} Segment */

test("a segment has its own times, or those that all have", () => {
  const data = new RunData();
  /** @type {Segment[]} */
  const folds = [{ time: [[10, 20], [60, 61]] }, {}].map((told) => ["", [10, 20], [0.5, 0.4], told]);
  data.take({ run: 0, metrics: { loss: folds }, time: [[10, 20], [3, 4]] });
  assert.deepEqual(["time", "epoch"].map((name) => data.has(name)), [true, false]);
  assert.deepEqual(folds.map((fold) => data.xOf(fold, "time")), [[60, 61], [3, 4]]);
  assert.deepEqual(folds.map((fold) => data.xOf(fold, "epoch")), [[], []]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { lineLooks, PHASES, yRange } from "../../../../batchai_magics/widgets/frontend/core/chart_style.js";
import { smoothed } from "../../../../batchai_magics/widgets/frontend/core/chart_bar.js";

test("two metrics of one phase have colours of their own, and the dashes of it", () => {
  const [loss, trainLoss, validation, another] = lineLooks(["train", "train", "val", "val"]);
  assert.deepEqual([loss, validation], [PHASES.train, PHASES.val]);
  assert.equal(new Set([loss, trainLoss, validation].map(({ colour }) => colour)).size, 3);
  assert.notEqual(trainLoss.colour, loss.colour);
  assert.deepEqual(another.dash, PHASES.val.dash);
});

test("an axis has room around its values", () => {
  assert.deepEqual(yRange(0, 100, false), [-8, 108]);
  assert.deepEqual(yRange(50, 100, true), [0, 108]);
});

test("the axis of a constant is as wide whether or not smoothing rounds its values", () => {
  const values = smoothed(new Array(30).fill(1e-3), 0.95).map(Number);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  assert.ok(low < high);
  const [min, max] = yRange(low, high, false);
  assert.ok(max - min > 1e-4);
});

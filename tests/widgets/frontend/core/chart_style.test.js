import assert from "node:assert/strict";
import { test } from "node:test";

import { lineLooks, looks, PHASES, yRange } from "../../../../batchai_magics/widgets/frontend/core/chart_style.js";
import { smoothed } from "../../../../batchai_magics/widgets/frontend/core/chart_grid.js";

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

test("the points of a dashed line are drawn where there is room, also before its place is in the page", () => {
  Object.assign(globalThis, { devicePixelRatio: 2, getComputedStyle: () => ({ getPropertyValue: () => "" }) });
  const line = { label: "accuracy", colour: "--ba-val", width: 1, dash: [6, 4] };
  const look = { bands: [], isLog: false, fromZero: false, shadedTo: () => null, marks: () => [], axis: { label: "step" } };
  const { show } = looks({}, [line], look).series[1].points;
  const plot = { data: [[1, 2, 3], [0.5, null, 0.6]], over: { clientWidth: 0 }, bbox: { width: 60 } };
  assert.equal(show(plot, 1), true);
  assert.equal(show({ ...plot, bbox: { width: 40 } }, 1), false);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { smoothed } from "../../../../batchai_magics/widgets/frontend/core/chart_grid.js";

test("without a weight a line is itself", () => {
  assert.deepEqual(smoothed([1, null, 3], 0), [1, null, 3]);
});

test("the first value is as it is, and a constant stays", () => {
  assert.deepEqual(smoothed([4, 4, 4], 0.9).map((value) => Number(value.toFixed(9))), [4, 4, 4]);
});

test("older values count less", () => {
  assert.deepEqual(smoothed([0, 3], 0.5), [0, 2]);
});

test("a hole stays a hole and forgets nothing", () => {
  assert.deepEqual(smoothed([0, null, 3], 0.5), [0, null, 2]);
});

import assert from "node:assert/strict";
import test from "node:test";
import { latest, merged, valueAt } from "../../../../batchai_magics/widgets/frontend/comparison/lines_chart.js";

const line = (x, y) => ({ key: "", label: "", colour: "", x, y });

test("lines of other steps share their x values", () => {
  const { xs, columns } = merged([line([10, 30], [1, 3]), line([20, 30], [5, 6])]);
  assert.deepEqual(xs, [10, 20, 30]);
  assert.deepEqual(columns, [
    [1, null, 3],
    [null, 5, 6],
  ]);
});

test("what has no place or no value is left out", () => {
  const { xs, columns } = merged([line([null, 20, 30], [1, null, 3]), line([], [])]);
  assert.deepEqual(xs, [30]);
  assert.deepEqual(columns, [[3], [null]]);
});

test("x values stand in order, however they come", () => {
  assert.deepEqual(merged([line([30, 4, 200], [1, 2, 3])]).xs, [4, 30, 200]);
});

test("under the cursor a line has its nearest value before, and none where it is not", () => {
  const column = [null, 1, null, 3, null];
  assert.deepEqual([0, 1, 2, 3, 4].map((row) => valueAt(column, row)), [null, 1, 1, 3, null]);
  assert.equal(latest(column), 3);
  assert.equal(latest([]), null);
});

test("lines over equal steps are not copied, and shorter ones end early", () => {
  const long = line([10, 20, 30], [1, 2, 3]);
  const { xs, columns } = merged([long, line([10, 20], [5, 6])]);
  assert.equal(xs, long.x);
  assert.equal(columns[0], long.y);
  assert.deepEqual(columns[1], [5, 6, null]);
});

test("very many x values become a grid on which no line leaves its points", () => {
  const lines = Array.from({ length: 20 }, (_, k) => line(Array.from({ length: 200 }, (__, i) => i + k / 20), new Array(200).fill(k)));
  const { xs, columns } = merged(lines);
  assert.ok(xs.length < 1000);
  assert.ok(columns.every((column, k) => column.every((value) => value === null || value === k)));
  assert.deepEqual([columns[0].at(-1), columns[19].at(-1)], [null, 19]);
});

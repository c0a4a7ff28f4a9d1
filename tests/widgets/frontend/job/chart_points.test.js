import assert from "node:assert/strict";
import { test } from "node:test";

import { JobNumbers, Series } from "../../../../batchai_magics/widgets/frontend/job/chart_points.js";

/** Rows of [step, rank, value] as the values of a message. */
const parts = (...rows) => [{ steps: rows.map(([step]) => step), ranks: rows.map(([, rank]) => rank) }, rows.map(([, , value]) => value)];

function seriesOf(over, ...rows) {
  const series = new Series();
  series.combine(over);
  series.add(0, ...parts(...rows));
  series.settle();
  return series;
}

test("a total is the sum over ranks, anything else their mean", () => {
  const rows = [[10, 0, 100], [10, 1, 110]];
  assert.deepEqual(seriesOf("sum", ...rows).steps, [10]);
  assert.deepEqual(seriesOf("sum", ...rows).all, [210]);
  assert.deepEqual(seriesOf("mean", ...rows).all, [105]);
});

test("the total ends at the last step of all ranks, as in a saved figure", () => {
  const series = seriesOf("sum", [10, 0, 100], [10, 1, 110], [20, 0, 120]);
  assert.deepEqual(series.all, [210, null]);
  assert.deepEqual(series.byRank.get(1), [110, null]);
});

test("the lowest and the highest rank of each step are known, as far as any has told it", () => {
  const series = seriesOf("sum", [10, 0, 100], [10, 1, 110], [10, 2, 105], [20, 1, 7], [30, 0, NaN]);
  assert.deepEqual([series.low, series.high], [[100, 7, null], [110, 7, null]]);
});

test("a step that comes late takes its place", () => {
  const series = seriesOf("sum", [10, 0, 1], [30, 0, 3], [20, 1, 2]);
  assert.deepEqual(series.steps, [10, 20, 30]);
  assert.deepEqual(series.byRank.get(0), [1, null, 3]);
  assert.deepEqual(series.all, [null, null, null]);
  assert.ok(series.hasValues);
});

test("a value that is no number is a hole", () => {
  assert.deepEqual(seriesOf("mean", [1, 0, NaN], [2, 0, Infinity]).byRank.get(0), [null, null]);
});

test("points that are there are not taken again", () => {
  const series = seriesOf("mean", [1, 0, 5], [2, 0, 6]);
  assert.ok(series.add(1, ...parts([2, 0, 99], [3, 0, 7])));
  series.settle();
  assert.deepEqual(series.all, [5, 6, 7]);
  assert.ok(series.add(0, ...parts([1, 0, 5])));
  assert.equal(series.count, 3);
});

test("points that are missing are noticed", () => {
  assert.equal(seriesOf("mean", [1, 0, 5]).add(7, ...parts([9, 0, 1])), false);
});

test("another generation makes everything void", () => {
  const points = new JobNumbers();
  points.of("loss").add(0, ...parts([1, 0, 5], [1, 1, 6]));
  points.of("lr").add(0, ...parts([1, 0, 0.5]));
  assert.deepEqual([points.begin(0), points.counts], [false, { loss: 2, lr: 1 }]);
  assert.deepEqual([points.begin(1), points.counts], [true, { loss: 0, lr: 0 }]);
  assert.ok(points.of("loss").add(0, ...parts([7, 0, 8])));
  points.of("loss").settle();
  assert.deepEqual([points.of("loss").all, points.of("loss").ranks], [[8], [0]]);
});

test("a late value of an early step changes what comes behind it", () => {
  const series = seriesOf("sum", [1, 0, 5], [2, 0, 6]);
  series.add(2, ...parts([1, 1, 100], [3, 0, 7]));
  series.settle();
  assert.deepEqual(series.all, [105, null, null]);
});

test("a late step makes room in every column that reaches it", () => {
  const series = seriesOf("sum", [10, 0, 1], [10, 1, 5], [30, 0, 3]);
  series.add(3, ...parts([20, 0, 2]));
  series.settle();
  assert.deepEqual([series.byRank.get(0), series.byRank.get(1)], [[1, 2, 3], [5, null, null]]);
});

test("ranks stand in the order of their numbers", () => {
  assert.deepEqual(seriesOf("mean", [1, 10, 1], [1, 9, 1], [1, 0, 1]).ranks, [0, 9, 10]);
});

test("a total lacks the steps before a rank that was seen late", () => {
  const series = seriesOf("sum", [1, 0, 5], [2, 0, 6]);
  assert.deepEqual(series.all, [5, 6]);
  series.add(2, ...parts([2, 1, 7]));
  series.settle();
  assert.deepEqual(series.all, [null, 13]);
});

test("a rank that goes on alone leaves the total where it is", () => {
  const series = seriesOf("sum", [1, 0, 5], [1, 1, 7], [2, 0, 6]);
  series.add(3, ...parts([3, 0, 6]));
  series.settle();
  assert.deepEqual(series.all, [12, null, null]);
  series.add(4, ...parts([2, 1, 8]));
  series.settle();
  assert.deepEqual(series.all, [12, 14, null]);
});

test("what is no number counts for none in the mean, and alone makes a hole", () => {
  assert.deepEqual(seriesOf("mean", [1, 0, NaN], [1, 1, 4]).all, [4]);
  assert.deepEqual(seriesOf("mean", [1, 0, 2], [2, 0, NaN]).all, [2, null]);
  assert.deepEqual(seriesOf("mean", [1, 0, NaN]).all, [null]);
});

test("values that came before it was known how ranks are combined are combined again", () => {
  const series = seriesOf("mean", [1, 0, 100], [1, 1, 110]);
  series.combine("sum");
  series.settle();
  assert.deepEqual(series.all, [210]);
});

test("a metric tells its values at the steps of another one, as far as it has them", () => {
  const jitter = seriesOf("sum", [1, 0, 2], [1, 1, 3], [3, 0, 4], [3, 1, 4]);
  assert.deepEqual(jitter.at([1, 2, 3, 5]), [5, null, 8, null]);
});

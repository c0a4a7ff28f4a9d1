import assert from "node:assert/strict";
import { test } from "node:test";

import { PointTable } from "../../../../batchai_magics/widgets/frontend/job/chart_points.js";

/** Rows of [step, rank, rate, loss, jitter] as the columns of a message. */
const columns = (...rows) => {
  const [steps, ranks, ...values] = [0, 1, 2, 3, 4].map((k) => rows.map((row) => row[k] ?? 0));
  return [steps, ranks, values];
};

function tableOf(...rows) {
  const table = new PointTable();
  table.add(0, ...columns(...rows));
  table.settle();
  return table;
}

test("the total is the sum over ranks, the loss their mean", () => {
  const table = tableOf([10, 0, 100, 2], [10, 1, 110, 4]);
  assert.deepEqual(table.steps, [10]);
  assert.deepEqual(table.rates.all, [210]);
  assert.deepEqual(table.losses.all, [3]);
});

test("the total ends at the last step of all ranks, as in a saved figure", () => {
  const table = tableOf([10, 0, 100, 2], [10, 1, 110, 4], [20, 0, 120, 1]);
  assert.deepEqual(table.rates.all, [210, null]);
  assert.deepEqual(table.rates.byRank.get(1), [110, null]);
});

test("the lowest and the highest rank of each step are known, as far as any has told it", () => {
  const table = tableOf([10, 0, 100, 2], [10, 1, 110, 4], [10, 2, 105, NaN], [20, 1, 7, 1], [30, 0, NaN, 1]);
  assert.deepEqual([table.rates.low, table.rates.high], [[100, 7, null], [110, 7, null]]);
  assert.deepEqual([table.losses.low, table.losses.high], [[2, 1, 1], [4, 1, 1]]);
});

test("a step that comes late takes its place", () => {
  const table = tableOf([10, 0, 1, 1], [30, 0, 3, 3], [20, 1, 2, 2]);
  assert.deepEqual(table.steps, [10, 20, 30]);
  assert.deepEqual(table.rates.byRank.get(0), [1, null, 3]);
  assert.deepEqual(table.rates.all, [null, null, null]);
  assert.ok(table.rates.hasValues);
});

test("a value that is no number is a hole", () => {
  assert.deepEqual(tableOf([1, 0, 5, NaN], [2, 0, 6, Infinity]).losses.byRank.get(0), [null, null]);
});

test("points that are there are not taken again", () => {
  const table = tableOf([1, 0, 5, 1], [2, 0, 6, 1]);
  assert.ok(table.add(1, ...columns([2, 0, 99, 1], [3, 0, 7, 1])));
  table.settle();
  assert.deepEqual(table.rates.all, [5, 6, 7]);
});

test("points that are missing are noticed", () => {
  assert.equal(tableOf([1, 0, 5, 1]).add(7, ...columns([9, 0, 1, 1])), false);
});

test("later points change no settled row before them", () => {
  const table = tableOf([1, 0, 5, 1], [1, 1, 7, 1]);
  table.add(2, ...columns([2, 0, 6, 1]));
  table.settle();
  assert.deepEqual(table.rates.all, [12, null]);
});

test("another generation makes everything void", () => {
  const table = tableOf([1, 0, 5, 1], [2, 0, 6, 1]);
  table.other("lr").add(0, [1], [0], [[0.5]]);
  table.begin(1);
  assert.deepEqual([table.count, table.steps, table.counts], [0, [], { lr: 0 }]);
  assert.ok(table.add(0, ...columns([7, 0, 8, 1])));
  table.settle();
  assert.deepEqual(table.rates.all, [8]);
});

test("the jitter over all ranks is their sum", () => {
  assert.deepEqual(tableOf([1, 0, 5, 1, 2], [1, 1, 5, 1, 3]).jitters.all, [5]);
});

test("the loss of a step is the mean of the ranks that have told it", () => {
  const table = tableOf([1, 0, 5, 2], [1, 1, 5, 4], [2, 1, 5, 6]);
  assert.deepEqual(table.losses.all, [3, 6]);
});

test("a late value of an early step changes what comes behind it", () => {
  const table = tableOf([1, 0, 5, 1], [2, 0, 6, 1]);
  table.add(2, ...columns([1, 1, 100, 1], [3, 0, 7, 1]));
  table.settle();
  assert.deepEqual(table.rates.all, [105, null, null]);
});

test("a late step makes room in every column that reaches it", () => {
  const table = tableOf([10, 0, 1, 1], [10, 1, 5, 1], [30, 0, 3, 3]);
  table.add(3, ...columns([20, 0, 2, 2]));
  table.settle();
  assert.deepEqual([table.rates.byRank.get(0), table.rates.byRank.get(1)], [[1, 2, 3], [5, null, null]]);
});

test("points that are taken count, also when they come again", () => {
  const table = tableOf([1, 0, 5, 1], [2, 0, 6, 1]);
  assert.ok(table.add(0, ...columns([1, 0, 5, 1])));
  assert.equal(table.count, 2);
});

test("ranks stand in the order of their numbers", () => {
  assert.deepEqual(tableOf([1, 10, 1, 1], [1, 9, 1, 1], [1, 0, 1, 1]).rates.ranks, [0, 9, 10]);
});

test("a log that starts again has fewer points", () => {
  const table = tableOf([1, 0, 5, 1], [2, 0, 6, 1]);
  table.begin(0);
  assert.equal(table.count, 2);
  table.begin(2);
  table.settle();
  assert.deepEqual([table.rates.all, table.rates.ranks], [[], []]);
});

test("a total lacks the steps before a rank that was seen late", () => {
  const table = tableOf([1, 0, 5, 1], [2, 0, 6, 1]);
  assert.deepEqual(table.rates.all, [5, 6]);
  table.add(2, ...columns([2, 1, 7, 1]));
  table.settle();
  assert.deepEqual(table.rates.all, [null, 13]);
});

test("a rank that goes on alone leaves the total where it is", () => {
  const table = tableOf([1, 0, 5, 1], [1, 1, 7, 1], [2, 0, 6, 1]);
  table.add(3, ...columns([3, 0, 6, 1]));
  table.settle();
  assert.deepEqual(table.rates.all, [12, null, null]);
  table.add(4, ...columns([2, 1, 8, 1]));
  table.settle();
  assert.deepEqual(table.rates.all, [12, 14, null]);
});

test("what is no number counts for none in the mean, and alone makes a hole", () => {
  assert.deepEqual(tableOf([1, 0, 5, NaN], [1, 1, 5, 4]).losses.all, [4]);
  assert.deepEqual(tableOf([1, 0, 5, 2], [2, 0, 5, NaN]).losses.all, [2, null]);
  assert.deepEqual(tableOf([1, 0, 5, NaN]).losses.all, [null]);
});

test("numbers that each process tells of itself are added up, others are averaged", () => {
  const table = new PointTable();
  table.other("images_per_sec").values.combine("sum");
  for (const name of ["images_per_sec", "total_samples_per_sec"]) {
    table.other(name).add(0, [1, 1], [0, 1], [[100, 110]]);
    table.other(name).settle();
  }
  assert.deepEqual(table.other("images_per_sec").values.all, [210]);
  assert.deepEqual(table.other("total_samples_per_sec").values.all, [105]);
});

test("values that came before it was known how ranks are combined are combined again", () => {
  const table = new PointTable().other("tokens_per_sec");
  table.add(0, [1, 1], [0, 1], [[100, 110]]);
  table.settle();
  table.values.combine("sum");
  table.settle();
  assert.deepEqual(table.values.all, [210]);
});

import assert from "node:assert/strict";
import test from "node:test";
import { bestSoFar, SweepTrials } from "../../../../batchai_magics/widgets/frontend/comparison/sweep_view.js";

const row = (number, best, state = "succeeded") => [number, `lr-t${number}`, state, 1, best, best, null, null, "", []];

test("the best value so far falls or rises as the metric does", () => {
  assert.deepEqual(bestSoFar([3, 1, 2], 1), [3, 1, 1]);
  assert.deepEqual(bestSoFar([1, 3, 2], -1), [1, 3, 3]);
});

test("trials stand in the order of their numbers, however they come, and change in place", () => {
  const sweep = new SweepTrials();
  sweep.take([row(3, 1), row(1, null, "running")]);
  sweep.take([row(1, 5), row(2, 4)]);
  assert.deepEqual(sweep.all.map(({ number, best }) => [number, best]), [[1, 5], [2, 4], [3, 1]]);
});

test("the best trials come first in either direction, and those without a value not at all", () => {
  const sweep = new SweepTrials();
  sweep.take([row(1, 5), row(2, 4), row(3, null), row(4, 6)]);
  sweep.facts = { ...sweep.facts, sign: 1 };
  assert.deepEqual(sweep.best(2), ["lr-t2", "lr-t1"]);
  sweep.facts = { ...sweep.facts, sign: -1 };
  assert.deepEqual(sweep.best(9), ["lr-t4", "lr-t1", "lr-t2"]);
});

test("a trial that failed has its reason", () => {
  const sweep = new SweepTrials();
  sweep.take([[...row(1, null, "failed"), [], [], null, "rank 0: KeyError: 'labels'"]]);
  assert.equal(sweep.all[0].failure, "rank 0: KeyError: 'labels'");
});

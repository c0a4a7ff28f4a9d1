import assert from "node:assert/strict";
import { test } from "node:test";

import { JobNumbers, scalesOf } from "../../../../batchai_magics/widgets/frontend/job/chart_points.js";
import { XScale } from "../../../../batchai_magics/widgets/frontend/core/x_scales.js";

test("steps within an epoch are spread over it, also in the one that goes on", () => {
  const scale = new XScale("epoch", [0, 100, 200], [0, 1, 2]);
  assert.deepEqual(scale.of([0, 50, 100, 150, 250]), [0, 0.5, 1, 1.5, 2.5]);
});

test("steps before the first known one are not before the start", () => {
  assert.deepEqual(new XScale("time", [10, 20], [4, 20]).of([5, 10, 15]), [0, 4, 12]);
});

test("time never goes back, not even where a clock did", () => {
  assert.deepEqual(new XScale("time", [1, 2, 3], [10, 4, 30]).of([1, 2, 3]), [10, 20, 30]);
});

test("steps stay as they are", () => {
  const steps = [3, 5];
  assert.equal(new XScale("step").of(steps), steps);
});

test("an axis that does not tell steps apart is not offered", () => {
  const points = new JobNumbers();
  points.of("loss").add(0, { steps: [1, 2], ranks: [-1, -1], epoch: [1, 1], time: [0, 7] }, [5, 6]);
  assert.deepEqual(scalesOf(points, "step").map(({ name }) => name), ["step", "time"]);
});

test("a log that tells epochs only has no axis of steps", () => {
  const points = new JobNumbers();
  points.of("loss").add(0, { steps: [1, 2], ranks: [-1, -1], epoch: [1, 2], time: [NaN, NaN] }, [5, 6]);
  assert.deepEqual(scalesOf(points, "epoch").map(({ name }) => name), ["epoch"]);
});

test("the first epoch of a log without steps stands at its number, several values of it in order", () => {
  const points = new JobNumbers();
  points.of("loss").add(0, { steps: [3], ranks: [-1], epoch: [3], time: [NaN] }, [5]);
  assert.deepEqual(scalesOf(points, "epoch").map((scale) => [scale.name, scale.of([3])]), [["epoch", [3]]]);
  points.of("loss").add(1, { steps: [4], ranks: [-1], epoch: [3], time: [NaN] }, [6]);
  assert.deepEqual(scalesOf(points, "epoch").map((scale) => [scale.name, scale.of([3, 4])]), [["order", [1, 2]]]);
});

test("a log without positions has its values in order and no axis of steps", () => {
  const points = new JobNumbers();
  points.of("accuracy").add(0, { steps: [1, 2], ranks: [-1, -1], time: [0, 7] }, [0.9, 0.93]);
  const scales = scalesOf(points, "order");
  assert.deepEqual(scales.map(({ name }) => name), ["order", "time"]);
  assert.deepEqual(scales[0]?.of([1, 2]), [1, 2]);
});

test("the metric with the most steps tells when they were, also if a step comes late", () => {
  const points = new JobNumbers();
  points.of("val_loss").add(0, { steps: [2], ranks: [-1], time: [99] }, [5]);
  points.of("loss").add(0, { steps: [1, 3, 2], ranks: [-1, -1, -1], time: [10, 30, 20] }, [5, 6, 7]);
  assert.deepEqual(scalesOf(points, "step").find(({ name }) => name === "time")?.of([1, 2, 3]), [10, 20, 30]);
});

test("without steps, every metric tells where its epochs are", () => {
  const points = new JobNumbers();
  points.of("loss").add(0, { steps: [1, 3, 5], ranks: [-1, -1, -1], epoch: [0.8, 1.6, 2.4] }, [5, 6, 7]);
  points.of("val_loss").add(0, { steps: [2, 4, 6], ranks: [-1, -1, -1], epoch: [1, 2, 3] }, [5, 6, 7]);
  assert.deepEqual(scalesOf(points, "epoch")[0]?.of([2, 4, 6]), [1, 2, 3]);
});

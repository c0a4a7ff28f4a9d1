import assert from "node:assert/strict";
import { test } from "node:test";

import { PointTable } from "../../../../batchai_magics/widgets/frontend/job/chart_points.js";
import { rateAmong, subjectsOf } from "../../../../batchai_magics/widgets/frontend/job/job_charts.js";

/** The titles of the charts of a log with these numbers. */
function titlesOf(names, { hasSteps = false } = {}) {
  const points = new PointTable();
  for (const name of names) points.other(name);
  if (hasSteps) points.add(0, [1], [0], [[100], [2], [1]]);
  return subjectsOf(points).map(({ title }) => title);
}

test("a job without numbers has no chart", () => {
  assert.deepEqual(titlesOf([]), []);
});

test("each number has a chart: the speed first, then the losses, then the others as they came", () => {
  const names = ["accuracy", "val_loss", "loss", "images_per_sec", "lr"];
  assert.deepEqual(titlesOf(names), ["images_per_sec", "loss", "val_loss", "accuracy", "lr"]);
});

test("step lines have the first places", () => {
  assert.deepEqual(titlesOf(["top-1", "samples_per_sec"], { hasSteps: true }), ["images/sec", "loss", "top-1", "samples_per_sec"]);
});

test("what is said once of all steps has none", () => {
  assert.deepEqual(titlesOf(["mean_images_per_sec", "devices", "loss"]), ["loss"]);
});

test("the best of several rates is that of images", () => {
  assert.equal(rateAmong(["loss", "steps_per_sec", "samples_per_sec", "images_per_sec"]), "images_per_sec");
  assert.equal(rateAmong(["loss", "eval examples/sec"]), undefined);
});

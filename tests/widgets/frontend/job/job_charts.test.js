import assert from "node:assert/strict";
import { test } from "node:test";

import { PointTable } from "../../../../batchai_magics/widgets/frontend/job/chart_points.js";
import { subjectsOf } from "../../../../batchai_magics/widgets/frontend/job/job_charts.js";

const line = (name, phase = "train") => ({ name, phase });
const chart = (title, lines, more = {}) => ({ title, is_rate: false, is_summed: false, is_default: true, lines, ...more });

/** A table with points of these metrics. */
function pointsOf(...names) {
  const points = new PointTable();
  for (const name of names) points.other(name).add(0, [10], [0], [[0.5]]);
  return points;
}

test("a job without numbers has no chart", () => {
  assert.deepEqual(subjectsOf(new PointTable(), []), []);
});

test("training and validation of one quantity are lines of one chart", () => {
  const [subject] = subjectsOf(pointsOf("loss", "val_loss"), [chart("loss", [line("loss"), line("val_loss", "val")])]);
  assert.deepEqual(subject.lines.map(({ name, phase }) => [name, phase]), [["loss", "train"], ["val_loss", "val"]]);
});

test("the first of several folds has the name of its heading", () => {
  const lines = [{ ...line("loss"), label: "loss (Fold 1)" }, line("loss (Fold 2)")];
  const [subject] = subjectsOf(pointsOf("loss", "loss (Fold 2)"), [chart("loss", lines)]);
  assert.deepEqual(subject.lines.map(({ label }) => label), ["loss (Fold 1)", "loss (Fold 2)"]);
});

test("a metric whose points have not come yet has no line", () => {
  const charts = [chart("loss", [line("loss"), line("val_loss", "val")]), chart("lr", [line("lr")])];
  const subjects = subjectsOf(pointsOf("loss"), charts);
  assert.deepEqual(subjects.map(({ title, lines }) => [title, lines.length]), [["loss", 1]]);
});

test("the speed of step lines starts at 0, and has its jitter and its warm-up", () => {
  const points = pointsOf();
  points.add(0, [10], [0], [[100], [2], [1]]);
  const speed = chart("images/sec", [line("images_per_sec")], { is_rate: true, is_summed: true });
  const [rate, loss] = subjectsOf(points, [speed, chart("loss", [line("loss")])]);
  assert.deepEqual([rate.lines[0].values.over, loss.lines[0].values.over], ["sum", "mean"]);
  assert.deepEqual([rate.band, rate.fromZero, rate.hasWarmUp, rate.over], [points.jitters, true, true, "total"]);
  assert.deepEqual([loss.band, loss.fromZero, loss.over, loss.lines[0].values], [undefined, false, "mean", points.losses]);
});

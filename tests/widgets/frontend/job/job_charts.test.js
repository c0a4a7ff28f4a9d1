import assert from "node:assert/strict";
import { test } from "node:test";

import { JobNumbers } from "../../../../batchai_magics/widgets/frontend/job/chart_points.js";
import { subjectsOf } from "../../../../batchai_magics/widgets/frontend/job/job_charts.js";

const line = (name, phase = "train") => ({ name, phase });
const chart = (title, lines, more = {}) => ({ title, is_rate: false, is_summed: false, is_default: true, lines, ...more });

/** A table with points of these metrics. */
function pointsOf(...names) {
  const points = new JobNumbers();
  for (const name of names) points.of(name).add(0, { steps: [10], ranks: [0] }, [0.5]);
  return points;
}

test("a job without numbers has no chart", () => {
  assert.deepEqual(subjectsOf(new JobNumbers(), []), []);
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

test("a mean rate starts at 0, and has its jitter and its warm-up", () => {
  const points = pointsOf("images_per_sec", "loss", "jitter");
  const speed = chart("images/sec", [line("images_per_sec")], { is_rate: true, is_summed: true, band: "jitter" });
  const [rate, loss] = subjectsOf(points, [speed, chart("loss", [line("loss")])]);
  assert.deepEqual([rate.lines[0].series.over, rate.band.over, loss.lines[0].series.over], ["sum", "sum", "mean"]);
  assert.deepEqual([rate.band, rate.fromZero, rate.hasWarmUp, rate.over], [points.of("jitter"), true, true, "total"]);
  assert.deepEqual([loss.band, loss.hasWarmUp, loss.fromZero, loss.over], [undefined, undefined, false, "mean"]);
});

test("a rate whose jitter has not come yet is drawn without it", () => {
  const speed = chart("images/sec", [line("images_per_sec")], { band: "jitter" });
  assert.equal(subjectsOf(pointsOf("images_per_sec"), [speed])[0].band, undefined);
});

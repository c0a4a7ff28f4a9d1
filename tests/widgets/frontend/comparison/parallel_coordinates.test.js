import assert from "node:assert/strict";
import test from "node:test";
import { placed } from "../../../../batchai_magics/widgets/frontend/comparison/parallel_coordinates.js";
import { coordinatesOf, SweepTrials } from "../../../../batchai_magics/widgets/frontend/comparison/sweep_view.js";

const top = Math.min(...placed({ title: "a", values: [0, 1] }, 0).ys);
const bottom = Math.max(...placed({ title: "a", values: [0, 1] }, 0).ys);
const shares = (values) => placed({ title: "a", values }, 0).ys.map((y) => (y === null ? null : Math.round((100 * (bottom - y)) / (bottom - top)) / 100));
const words = (values) => placed({ title: "a", values }, 0).labels.map(([, text]) => text);

test("numbers stand from the least at the bottom to the largest at the top, far apart ones by their orders", () => {
  assert.deepEqual(shares([2, 4, 3]), [0, 1, 0.5]);
  assert.deepEqual(shares([0.001, 0.1, 0.01]), [0, 1, 0.5]);
  assert.deepEqual(words([2, 4, 3]), ["2", "4"]);
});

test("texts have a place each, a single value is in the middle, and what is unknown has none", () => {
  assert.deepEqual(shares(["sgd", "adam", "lamb"]), [1, 0, 0.5]);
  assert.deepEqual(words(["sgd", "adam", "sgd"]), ["sgd", "adam"]);
  assert.deepEqual(shares([7, 7]), [0.5, 0.5]);
  assert.deepEqual(shares([1, null, 2, undefined]), [0, null, 1, null]);
});

test("a sweep has an axis for each parameter and metric, and its best trial is drawn last", () => {
  const sweep = new SweepTrials();
  const row = (number, lr, best) => [number, `lr-t${number}`, "succeeded", 1, best, best, null, null, "", [lr], [1 - best], [], null];
  sweep.take([row(1, 0.1, 0.3), row(2, 0.2, 0.2), row(3, 0.3, null), row(4, 0.4, 0.4)]);
  sweep.facts = { ...sweep.facts, sign: 1, parameters: ["lr"], metric: "loss", metrics: [{ name: "acc", label: "accuracy", is_rising: true }] };
  const [axes, lines] = coordinatesOf(sweep);
  assert.deepEqual(axes.map(({ title, values }) => [title, values]), [["lr", [0.4, 0.1, 0.2]], ["best loss", [0.4, 0.3, 0.2]], ["accuracy", [0.6, 0.7, 0.8]]]);
  assert.deepEqual(lines.map(({ key }) => key), ["4", "1", "2"]);
});

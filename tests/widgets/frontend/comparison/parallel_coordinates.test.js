import assert from "node:assert/strict";
import test from "node:test";
import { ParallelAxis } from "../../../../batchai_magics/widgets/frontend/comparison/parallel_axis.js";
import { coordinatesOf, SweepTrials } from "../../../../batchai_magics/widgets/frontend/comparison/sweep_view.js";

const axisOf = (values) => new ParallelAxis({ key: "a", title: "a", values }, 0);
const top = Math.min(...axisOf([0, 1]).ys);
const bottom = Math.max(...axisOf([0, 1]).ys);
const shares = (values) => axisOf(values).ys.map((y) => (y === null ? null : Math.round((100 * (bottom - y)) / (bottom - top)) / 100));
const words = (values) => axisOf(values).labels.map(([, text]) => text);
const heldBy = (values, range) => values.filter((_, line) => axisOf(values).holds(line, range));
const pressed = (axis, end, keys, range = null) => keys.reduce((now, key) => axis.moved(now, end, key), range);

test("numbers stand from the least at the bottom to the largest at the top, far apart ones by their orders", () => {
  assert.deepEqual(shares([2, 4, 3]), [0, 1, 0.5]);
  assert.deepEqual(shares([0.001, 0.1, 0.01]), [0, 1, 0.5]);
  assert.deepEqual(words([2, 4, 3]), ["2", "4"]);
});

test("texts have a place each, a single value is in the middle, and what is unknown has none", () => {
  assert.deepEqual(shares(["sgd", "adam", "lamb"]), [1, 0, 0.5]);
  assert.deepEqual(words(["sgd", "adam", "sgd"]), ["adam", "sgd"]);
  assert.deepEqual(shares([7, 7]), [0.5, 0.5]);
  assert.deepEqual(shares([1, null, 2, undefined]), [0, null, 1, null]);
});

test("a dragged range is one of values: it stays when the axis grows, and an end beyond the axis is open", () => {
  const axis = axisOf([0, 10, null]);
  const middle = (top + bottom) / 2;
  assert.deepEqual(axis.between(middle, top - 5), { least: 5, most: null });
  assert.deepEqual(heldBy([0, 10, 4, 30, 7, null], { least: 5, most: null }), [10, 30, 7]);
  assert.deepEqual(heldBy([0, 10, 4, 30, 7], axis.between(bottom + 9, middle)), [0, 4]);
  assert.equal(axis.between(top - 5, bottom + 5), null);
  assert.deepEqual(axisOf(["sgd", "adam", "lamb"]).between(middle + 20, bottom), { least: "adam", most: "adam" });
  assert.deepEqual(heldBy(["sgd", "adam", "adagrad", "lamb"], { least: "adam", most: "lamb" }), ["adam", "lamb"]);
  assert.equal(axisOf([7, 7]).between(top, bottom - 20), null);
});

test("a key moves an end of a range from value to value, up to the other end, and back to all", () => {
  const axis = axisOf([0.1, 0.001, 0.01, 0.01]);
  assert.deepEqual(pressed(axis, "least", ["ArrowUp"]), { least: 0.01, most: null });
  assert.deepEqual(pressed(axis, "least", ["ArrowUp", "ArrowUp", "ArrowUp"]), { least: 0.1, most: null });
  assert.deepEqual(pressed(axis, "most", ["ArrowDown"], { least: 0.01, most: null }), { least: 0.01, most: 0.01 });
  assert.deepEqual(pressed(axis, "most", ["Home"], { least: 0.01, most: null }), { least: 0.01, most: 0.01 });
  assert.equal(pressed(axis, "least", ["End", "Home"]), null);
  assert.deepEqual(pressed(axis, "least", ["ArrowDown"], { least: 0.02, most: 0.05 }), { least: 0.01, most: 0.05 });
  assert.equal(axis.moved(null, "least", "a"), undefined);
  const many = axisOf(Array.from({ length: 50 }, (_, i) => i));
  assert.deepEqual(pressed(many, "most", ["PageDown"]), { least: null, most: 44 });
});

test("a range on an axis with a single value left still selects, and its ends move and are drawn", () => {
  for (const range of [{ least: 9, most: null }, { least: null, most: 5 }]) assert.deepEqual(heldBy([7, 7, null], range), []);
  for (const range of [{ least: 5, most: null }, { least: 7, most: 7 }]) assert.deepEqual(heldBy([7, 7, null], range), [7, 7]);
  const axis = axisOf([7]);
  assert.equal(axis.moved({ least: 9, most: null }, "least", "ArrowDown"), null);
  assert.equal(axis.moved({ least: null, most: 5 }, "most", "ArrowUp"), null);
  assert.deepEqual(axis.slider({ least: 9, most: null }, "least"), { now: 0, most: 0, text: "9" });
  const ends = (range) => [axis.yOf(range, "least"), axis.yOf(range, "most")];
  assert.deepEqual([ends({ least: 9, most: null }), ends({ least: 5, most: null })], [[top, top], [bottom, top]]);
});

test("values that share a pixel are told apart, and one that was read from a pixel stays in its range", () => {
  const values = [0, 1e-5, 1];
  assert.deepEqual(heldBy(values, { least: 1e-5, most: null }), [1e-5, 1]);
  assert.deepEqual(pressed(axisOf(values), "least", ["ArrowUp"]), { least: 1e-5, most: null });
  for (const logs of [[0.001, 0.003, 0.7], [1e9, 1e9 + 0.3, 1e9 + 1]]) {
    const axis = axisOf(logs);
    const from = axis.yOf({ least: logs[1], most: null }, "least");
    assert.deepEqual(heldBy(logs, axis.between(from, top - 9)), logs.slice(1));
    assert.deepEqual(heldBy(logs, axis.between(from, bottom + 9)), logs.slice(0, 2));
  }
});

test("an end of a range is a slider over the values", () => {
  const axis = axisOf([1, 2, 4]);
  assert.deepEqual(axis.slider(null, "least"), { now: 0, most: 2, text: "1" });
  assert.deepEqual(axis.slider(null, "most"), { now: 2, most: 2, text: "4" });
  assert.deepEqual(axis.slider({ least: 2, most: 3 }, "least"), { now: 1, most: 2, text: "2" });
  assert.deepEqual(axis.slider({ least: 2, most: 3 }, "most"), { now: 1, most: 2, text: "3" });
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

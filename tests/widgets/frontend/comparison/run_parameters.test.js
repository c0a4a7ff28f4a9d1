import assert from "node:assert/strict";
import test from "node:test";
import { grouped, groupRows, momentsOf, parameterAxis } from "../../../../batchai_magics/widgets/frontend/comparison/run_parameters.js";

const row = (name, lr, value = null, state = "succeeded") => ({
  name, state, parameters: lr === undefined ? {} : { lr }, values: value === null ? {} : { loss: [value, null, null] }, tags: [], steps: 1, speedup: null, progress: null,
});
const line = (place, label, x, y) => ({ key: String(place), run: String(place), label, colour: "", x, y });

test("runs that share a value of a parameter become one line, their mean with its spread", () => {
  const rows = [row("a", 0.1), row("b", 0.1), row("c", 0.5)];
  const lines = [line(0, "a", [1, 2, 3], [1, 2, 3]), line(1, "b", [1, 3], [3, 5]), line(2, "c", [1], [9])];
  const [low, high] = grouped(lines, rows, "lr");
  assert.deepEqual([low.label, low.x, low.y], ["lr 0.1", [1, 2, 3], [2, 3, 4]]); // b is 4 at 2, between its points
  assert.ok(low.spread.every((spread) => Math.abs(spread - Math.SQRT2) < 1e-12));
  assert.deepEqual([high.label, high.y, high.spread], ["lr 0.5", [9], [0]]);
});

test("rows of groups have the mean of each metric, its spread and the state that matters", () => {
  const rows = [row("a", 0.001, 1), row("b", 0.0003, 4, "running"), row("c", 0.001, 3, "failed"), row("d", 0.001)];
  const [few, most] = groupRows(rows, "lr");
  assert.deepEqual([few.name, few.state, few.values.loss], ["lr 0.0003, 1 run", "running", [4, null, null]]);
  assert.deepEqual([most.name, most.state, most.values.loss], ["lr 0.001, 3 runs", "failed", [2, null, Math.SQRT2]]);
});

test("values that are not known count for nothing", () => {
  assert.deepEqual(momentsOf([null, NaN, 2]), { mean: 2, deviation: 0 });
  assert.deepEqual(momentsOf([]), { mean: null, deviation: null });
});

test("numbers far apart have a logarithmic axis, texts stand in order", () => {
  const rates = parameterAxis("lr", [row("a", 1e-4), row("b", 0.01)]);
  assert.equal(rates.placeOf(0.001), -3);
  assert.equal(rates.axis.tick(-2, 1, 2), "0.01");
  const sizes = parameterAxis("lr", [row("a", 32), row("b", 64)]);
  assert.equal(sizes.placeOf(64), 64);
  const texts = parameterAxis("lr", [row("a", "sgd"), row("b", "adam"), row("c")]);
  assert.deepEqual(["adam", "sgd", undefined].map(texts.placeOf), [0, 1, null]);
  assert.equal(texts.axis.words(1), "lr sgd");
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { EPOCH_AXIS, readText, tickText, TIME_AXIS } from "../../../../batchai_magics/widgets/frontend/core/chart_axes.js";

const ticks = (increment, ...values) => values.map((value) => tickText(value, increment, Math.max(...values.map(Math.abs))));

test("ticks have the decimals that tell them apart, all the same", () => {
  assert.deepEqual(ticks(0.5, 1, 1.5, 2), ["1.0", "1.5", "2.0"]);
  assert.deepEqual(ticks(0.25, -0.25, 0, 0.25), ["-0.25", "0", "0.25"]);
});

test("large ticks are short unless they would look alike", () => {
  assert.deepEqual(ticks(5000, 5000, 10_000), ["5k", "10k"]);
  assert.deepEqual(ticks(5e8, 5e8, 1e9), ["0.5G", "1.0G"]);
  assert.deepEqual(ticks(10, 1_000_000, 1_000_010), ["1,000,000", "1,000,010"]);
});

test("tiny ticks have exponents", () => {
  assert.deepEqual(ticks(5e-5, 0, 5e-5, 1.5e-4), ["0", "5e-5", "1.5e-4"]);
});

test("a value is read as exactly as its axis can show it", () => {
  assert.equal(readText(0.70412, 0.7, 0.71), "0.70412");
  assert.equal(readText(812.34, 0, 900), "812.3");
  assert.equal(readText(1_000_033.5, 1_000_000, 1_000_050), "1,000,033.5");
  assert.equal(readText(2.699e9, 0, 3e9), "2.699G");
  assert.equal(readText(1.9e-4, 0, 3e-4), "1.9000e-4");
});

test("a value too small for its axis is not shown as 0", () => {
  assert.equal(readText(3.86e-4, 0, 1.5), "3.86e-4");
  assert.equal(readText(-1e-5, -1, 0), "-1.00e-5");
  assert.equal(readText(0, 0, 1.5), "0.000");
});

test("a value without an axis, or that is none, is shown all the same", () => {
  assert.equal(readText(9, 9, 9), "9.000");
  assert.equal(readText(null, 0, 1), "–");
});

test("times and epochs are told as such", () => {
  assert.deepEqual([TIME_AXIS.tick(90, 30, 90), TIME_AXIS.tick(172_800, 86_400, 172_800)], ["1:30", "2 d"]);
  assert.deepEqual([EPOCH_AXIS.words(3), EPOCH_AXIS.words(3.14159)], ["epoch 3", "epoch 3.14"]);
});

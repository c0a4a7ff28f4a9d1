import assert from "node:assert/strict";
import { test } from "node:test";
import { briefOf, totalOf } from "../../../../batchai_magics/widgets/frontend/job/resource_usage.js";

const curve = (/** @type {number[]} */ ...points) => ({ points, last: points.at(-1) ?? 0 });
const use = {
  ranks: [
    { rank: 0, curves: { cpu_percent: curve(10, 90), memory_bytes: curve(1e6, 2e6) } },
    { rank: 1, curves: { cpu_percent: curve(100), memory_bytes: curve(3e6) } },
  ],
  more: 0,
  gpus: [],
  machines: [],
  notes: [],
  slow: {},
};

test("courses are added up from their ends", () => {
  assert.deepEqual(totalOf(use.ranks, "cpu_percent"), [190]);
  assert.deepEqual(totalOf(use.ranks.slice(0, 1), "cpu_percent"), [10, 90]);
  assert.deepEqual(totalOf([], "cpu_percent"), []);
});

test("of the whole it is told in a few words what the GPUs do and who is slow", () => {
  assert.equal(briefOf(use), "");
  const gpus = [{ gpu: 0, curves: { gpu_percent: curve(97) } }];
  const slow = { 1: "it waits for a CPU core: for 40 % of its time" };
  assert.equal(briefOf({ ...use, gpus, slow }), "GPU 97 % · rank 1 is slower than the others: it waits for a CPU core");
});

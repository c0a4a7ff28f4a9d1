import assert from "node:assert/strict";
import { test } from "node:test";

import { csvOf, fileName } from "../../../../batchai_magics/widgets/frontend/core/chart_tools.js";

test("values that 32 bits hold are written as they were", () => {
  const [loss] = new Float32Array([0.9]);
  assert.equal(csvOf({ header: ["step", "loss"], rows: [[10_000_000_000, loss], [20, null]] }), "step,loss\n10000000000,0.9\n20,\n");
});

test("names with commas or quotes are one cell", () => {
  assert.equal(csvOf({ header: ['top-1, "best"'], rows: [] }), '"top-1, ""best"""\n');
});

test("a file is named after the job and the chart", () => {
  assert.equal(fileName("resnet 50", "images/sec"), "resnet_50-images_sec");
});

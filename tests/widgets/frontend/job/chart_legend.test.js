import assert from "node:assert/strict";
import { test } from "node:test";

import { PointTable } from "../../../../batchai_magics/widgets/frontend/job/chart_points.js";
import { entriesAt } from "../../../../batchai_magics/widgets/frontend/job/step_chart.js";

const words = (subject) => entriesAt(0, { over: "total", isEach: false, ...subject }).map((entry) => entry.text);

test("the legend says what the band around the total is", () => {
  const table = new PointTable();
  table.add(0, [10, 10], [0, 1], [[100, 110], [2, 4], [2, 3]]);
  table.settle();
  assert.deepEqual(words({ values: table.rates, band: table.jitters }), ["total 210.0 ± 5.0 jitter", "ranks 100.0–110.0"]);
  assert.deepEqual(words({ values: table.losses, over: "mean" }), ["mean 3.000", "ranks 2.000–4.000"]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { withAllDigits } from "../../../../batchai_magics/widgets/frontend/core/chart_legend.js";
import { quantity } from "../../../../batchai_magics/widgets/frontend/core/format.js";
import { Series } from "../../../../batchai_magics/widgets/frontend/job/chart_points.js";
import { entriesAt, nearestIndex } from "../../../../batchai_magics/widgets/frontend/job/step_chart.js";

const words = (subject) => entriesAt(0, { over: "total", isEach: false, format: quantity, ...subject }).map((entry) => entry.text);

function seriesOf(over, ranks, values) {
  const series = new Series();
  series.combine(over);
  series.add(0, { steps: ranks.map(() => 10), ranks }, values);
  series.settle();
  return series;
}

test("the legend says what the band around the total is", () => {
  assert.deepEqual(words({ series: seriesOf("sum", [0, 1], [100, 110]), spread: [5] }), ["total 210.0 ± 5.000 jitter", "ranks 100.0–110.0"]);
  assert.deepEqual(words({ series: seriesOf("mean", [0, 1], [2, 4]), over: "mean" }), ["mean 3.000", "ranks 2.000–4.000"]);
});

test("a phase is told by its name and its dashes, not by colour alone", () => {
  const entries = entriesAt(0, { series: seriesOf("mean", [0], [0.5]), over: "mean", isEach: false, format: quantity, phase: "val", prefix: "val " });
  assert.deepEqual(entries, [{ key: "all", text: "val 0.500", colour: "--ba-val", isDashed: true }]);
});

test("a legend keeps room for all digits of its numbers", () => {
  assert.equal(withAllDigits("loss 1.5"), withAllDigits("loss 3.1415"));
  assert.equal(withAllDigits("step 390"), "step 000");
});

test("the cursor is at the nearest point", () => {
  assert.deepEqual([-5, 4, 6, 14, 16, 99].map((x) => nearestIndex([0, 10, 20], x)), [0, 0, 1, 1, 2, 2]);
  assert.equal(nearestIndex([7], 3), 0);
});

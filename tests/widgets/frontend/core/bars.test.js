import assert from "node:assert/strict";
import { test } from "node:test";
import { pointsOf } from "../../../../batchai_magics/widgets/frontend/core/bars.js";

test("a line counts from zero and ends at the right edge", () => {
  assert.equal(pointsOf([0, 50, 100]), "1.5,16.5 32.0,9.0 62.5,1.5");
});

test("a line of nothing or of zeros stays inside", () => {
  assert.equal(pointsOf([]), "");
  assert.equal(pointsOf([0, 0]), "1.5,16.5 62.5,16.5");
});

import assert from "node:assert/strict";
import test from "node:test";
import { error } from "../../../../batchai_magics/widgets/frontend/core/format.js";

test("an uncertainty has as many decimals as its value, and more only where it would be nothing", () => {
  assert.equal(error(8, 1033.2), "8");
  assert.equal(error(0.5, 60.4), "0.50");
  assert.equal(error(17.04, 240.1), "17.0");
  assert.equal(error(0.2, 1033), "0.200");
});

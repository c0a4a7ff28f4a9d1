import assert from "node:assert/strict";
import { test } from "node:test";

import { ViewMemory } from "../../../../batchai_magics/widgets/frontend/job/view_memory.js";

const facts = (name) => ({ experiment: "e", name, created: 1, directories: ["stdouterr"] });

function storage(text = null) {
  const kept = { text, getItem: () => kept.text, setItem: (_, value) => (kept.text = value) };
  return kept;
}

const memory = (name, kept) => new ViewMemory(facts(name), () => kept);

test("a job that is shown again has the state that it was left in, and no other has", () => {
  const kept = storage();
  memory("a", kept).keep({ tab: "/files" });
  memory("a", kept).keep({ titles: ["loss", "lr"], shown: ["lr"] });
  assert.deepEqual(memory("a", kept).state, { tab: "/files", titles: ["loss", "lr"], shown: ["lr"] });
  assert.deepEqual(memory("b", kept).state, {});
});

test("the jobs that were looked at last are kept", () => {
  const kept = storage();
  for (let i = 0; i < 120; i += 1) memory(`job-${i}`, kept).keep({ tab: "/files" });
  assert.equal(Object.keys(JSON.parse(kept.text)).length, 100);
  assert.deepEqual(memory("job-119", kept).state, { tab: "/files" });
  assert.deepEqual(memory("job-0", kept).state, {});
});

test("a browser that keeps nothing, or something else, opens each job as for the first time", () => {
  const refused = () => {
    throw new Error("SecurityError");
  };
  const refusing = new ViewMemory(facts("a"), refused);
  refusing.keep({ tab: "/files" });
  for (const text of ["no JSON", "null", "[]"]) assert.deepEqual(memory("a", storage(text)).state, {});
});

test("a recording is not remembered", () => {
  const kept = storage();
  new ViewMemory({ ...facts("a"), directories: [] }, () => kept).keep({ tab: "/files" });
  assert.equal(kept.text, null);
});

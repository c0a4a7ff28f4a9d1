import assert from "node:assert/strict";
import { test } from "node:test";

import { firstError } from "../../../../batchai_magics/widgets/frontend/job/log_search.js";

/** A session whose kernel gives these answers, and the requests that it got. */
function sessionOf(...answers) {
  const asked = [];
  return { asked, request: async (content) => (asked.push(content), { content: answers.shift() }) };
}

test("the kernel is asked for the first error until it has scanned far enough", async () => {
  const session = sessionOf({ offset: null, complete: false }, { offset: null, complete: false }, { offset: 0, complete: false });
  assert.equal(await firstError(session, "stdout.txt", 1), 0);
  assert.deepEqual(session.asked, Array(3).fill({ kind: "first_error", file: "stdout.txt", rank: 1 }));
});

test("a log without an error, or that cannot be read, has no first error", async () => {
  for (const answer of [{ offset: null, complete: true }, { text: "There is no such file." }]) {
    assert.equal(await firstError(sessionOf(answer), "stdout.txt", null), null);
  }
});

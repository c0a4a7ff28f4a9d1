import assert from "node:assert/strict";
import { test } from "node:test";

import { groupsOf, isRanked, ownerOf } from "../../../../batchai_magics/widgets/frontend/job/log_tabs.js";

const NODES = ["tvm-1382118903_1-20261121t193224z-p", "tvm-1382118903_2-20261121t193224z-p"];

test("the log that each node has of its own is one tab", () => {
  const files = [...NODES.map((node) => `execution-${node}.log`), ...NODES.map((node) => `stdout-job_prep-${node}.txt`), "stdout.txt"];
  const groups = groupsOf(files);
  assert.deepEqual(groups.map(({ label }) => label), ["stdout", "preparation", "execution"]);
  assert.deepEqual(groups[1].files, files.slice(2, 4));
  assert.deepEqual(files.map(ownerOf), ["node 1", "node 2", "node 1", "node 2", "stdout.txt"]);
});

test("a file of no known kind is a tab of its own, behind the others", () => {
  assert.deepEqual(groupsOf(["my.log", "other.txt", "stderr.txt", "execution.log"]).map(({ label }) => label), ["stderr", "execution", "my", "other"]);
});

test("only stdout and stderr are shared by the processes", () => {
  assert.deepEqual(["stdout.txt", "stderr.txt", "stdout-job_prep.txt", "execution.log"].map(isRanked), [true, true, false, false]);
});

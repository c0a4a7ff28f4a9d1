import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { test } from "node:test";

import { readRecording, RecordingHost } from "../../../../batchai_magics/widgets/frontend/hosts/recording_host.js";

const HEADER = { format: "batchai-recording", version: 2, name: "run", started: 1_000_000 };
const facts = (state, ended = null) => ({ facts: { state, created: 999_000, started: 1_000_000, ended }, history: [[1_000_000, 0, 1]] });
const ENTRIES = [
  { t: 0, state: facts("running") },
  { t: 2, content: { kind: "batch", seq: 1 }, buffers: [Buffer.from("line\n").toString("base64")] },
  { t: 5, state: facts("failed", 1_005_000) },
  { t: 5, reply: "failure", content: { kind: "reply", failure: { lines: ["gone"] } } },
];

/** A host, and the messages that it has sent. */
function replayed() {
  const host = new RecordingHost(HEADER, ENTRIES);
  const messages = [];
  host.on("msg:custom", (content, buffers) => messages.push([content, buffers.map((view) => Buffer.from(view.buffer).toString())]));
  return { host, messages };
}

test("what was recorded is replayed up to the time, once", () => {
  const { host, messages } = replayed();
  host.advance(1);
  assert.deepEqual([host.get("facts").state, messages], ["running", []]);
  host.advance(3);
  host.advance(4);
  assert.deepEqual(messages, [[{ kind: "batch", seq: 1 }, ["line\n"]]]);
  host.advance(99);
  assert.deepEqual([host.get("facts").state, host.time, host.duration], ["failed", 5, 5]);
});

test("times are as long ago as they were when it was recorded", (t) => {
  const now = 9_000_000;
  t.mock.method(Date, "now", () => now);
  const { host } = replayed();
  host.advance(2);
  assert.equal(now - host.get("facts").started, 2000);
  host.advance(5);
  const { started, ended } = host.get("facts");
  assert.deepEqual([started, ended], [now - 5000, now]);
  assert.equal(host.get("history")[0][2], 1);
});

test("a request gets the answer that was recorded, or learns that there is none", async () => {
  const { host, messages } = replayed();
  host.send({ kind: "failure", id: "q1" });
  host.send({ kind: "stacks", id: "q2" });
  host.send({ kind: "ready" });
  await Promise.resolve();
  assert.deepEqual(messages.map(([content]) => content), [
    { kind: "reply", failure: { lines: ["gone"] }, id: "q1" },
    { kind: "reply", text: "This was not recorded.", id: "q2" },
  ]);
});

test("a recording starts over", () => {
  const { host, messages } = replayed();
  host.advance(5);
  host.rewind();
  host.advance(2);
  assert.equal(messages.length, 2);
  assert.deepEqual([host.get("facts").can_again, host.get("facts").can_profile], [false, false]);
  assert.equal(host.get("facts").state, "running");
});

test("a recording is read from gzip, and anything else is refused", async () => {
  const file = (...lines) => new Response(gzipSync(lines.map((line) => JSON.stringify(line)).join("\n")));
  const host = await readRecording(file(HEADER, ...ENTRIES));
  assert.deepEqual([host.header.name, host.entries.length], ["run", 4]);
  await assert.rejects(readRecording(file({ format: "other" })), /not a recording/);
  await assert.rejects(readRecording(file({ ...HEADER, version: 9 })), /version 9/);
  await assert.rejects(readRecording(new Response("", { status: 404, statusText: "Not Found" })), /Not Found/);
});

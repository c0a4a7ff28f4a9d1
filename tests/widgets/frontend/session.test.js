import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Session } from "../../../batchai_magics/widgets/frontend/session.js";

let sent, take, session;

beforeEach(() => {
  sent = [];
  const model = { on: (_, listener) => (take = listener), off: () => {}, get: () => ({}), send: (content) => sent.push(content) };
  session = new Session(model);
});
afterEach(() => session.close());

const view = (array) => new DataView(array.buffer, array.byteOffset, array.byteLength);
const batch = (seq, more = {}, buffers = []) => take({ kind: "batch", seq, complete: false, logs: [], ...more }, buffers.map(view));
const point = (step, rate) => [new Int32Array([step]), new Int32Array([0]), ...[rate, 1, 2].map((v) => new Float32Array([v]))];

test("the kernel hears from time to time how far the page has come", () => {
  for (let seq = 1; seq <= 40; seq += 1) batch(seq);
  assert.deepEqual(sent.map(({ kind, seq }) => [kind, seq]), [["ack", 16], ["ack", 32]]);
});

test("points and other numbers come in one message", () => {
  const norm = [new Int32Array([3]), new Int32Array([-1]), new Float32Array([0.5])];
  const parts = { points: { first: 0, generation: 0 }, values: [{ name: "norm", first: 0 }] };
  batch(1, parts, [...point(10, 100), ...norm]);
  session.points.settle();
  assert.deepEqual([session.points.rates.all, session.points.jitters.all], [[100], [2]]);
  assert.deepEqual(session.points.counts, { norm: 1 });
});

test("points of a log that starts again replace the old ones", () => {
  batch(1, { points: { first: 0, generation: 0 } }, point(10, 100));
  batch(2, { points: { first: 0, generation: 1 } }, point(1, 5));
  session.points.settle();
  assert.deepEqual([session.points.steps, session.points.rates.all], [[1], [5]]);
});

test("an answer reaches the question that it belongs to", async () => {
  const [first, second] = [session.request({ kind: "list" }), session.request({ kind: "list" })];
  take({ kind: "reply", id: sent[1].id, entries: ["b"] }, []);
  take({ kind: "answer", id: sent[0].id, text: "no such folder" }, []);
  assert.deepEqual((await second).content.entries, ["b"]);
  assert.equal((await first).content.text, "no such folder");
});

test("a view says what it has when it says hello", () => {
  batch(1, { points: { first: 0, generation: 0 }, logs: [{ file: "stdout.txt", offset: 0, size: 3, skipped: 0 }] }, [
    ...point(10, 100),
    new Uint8Array([97, 98, 10]),
  ]);
  session.log("stdout.txt", 2).extend(3);
  session.hello();
  assert.deepEqual(sent.at(-1).have, { points: 1, generation: 0, values: {}, logs: { "stdout.txt": 3 } });
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { PageHost, frames } from "../../../../batchai_magics/widgets/frontend/hosts/page_host.js";

/** A frame as the server sends it. */
function frame(header, ...buffers) {
  const text = Buffer.from(JSON.stringify({ ...header, buffers: buffers.map((buffer) => buffer.length) }));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  return Buffer.concat([length, text, ...buffers]);
}

/** A reader of some bytes in chunks of a size. */
function reader(bytes, size) {
  const chunks = [];
  for (let at = 0; at < bytes.length; at += size) chunks.push(new Uint8Array(bytes.subarray(at, at + size)));
  return { read: async () => (chunks.length ? { done: false, value: chunks.shift() } : { done: true }) };
}

for (const size of [1, 7, 1000]) {
  test(`frames are the same in chunks of ${size} bytes`, async () => {
    const bytes = Buffer.concat([frame({ state: { facts: 1 } }), frame({ content: { kind: "batch" } }, Buffer.from("ab"), Buffer.from("")), frame({ state: {} })]);
    const found = [];
    for await (const { state, content, buffers } of frames(reader(bytes, size))) {
      found.push([state ?? content, buffers.map((view) => Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString())]);
    }
    assert.deepEqual(found, [[{ facts: 1 }, []], [{ kind: "batch" }, ["ab", ""]], [{}, []]]);
  });
}

test("rows that have changed take the places of those that the page has", async () => {
  const rows = [{ name: "a", state: "running" }, { name: "b", state: "queued" }];
  const bytes = Buffer.concat([frame({ state: { facts: 1, rows, is_first: true } }), frame({ state: { facts: 2, changed_rows: [[1, { name: "b", state: "running" }]] } })]);
  globalThis.fetch = async () => ({ ok: true, body: { getReader: () => reader(bytes, 1000) } });
  const host = new PageHost("/");
  const drawn = await new Promise((draw) => host.on("change:rows", () => host.get("facts") === 2 && draw(host.get("rows"))));
  host.pause();
  assert.deepEqual(drawn, [rows[0], { name: "b", state: "running" }]);
  assert.equal(host.get("changed_rows"), undefined);
});

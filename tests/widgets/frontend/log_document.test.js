import assert from "node:assert/strict";
import { test } from "node:test";

import { LogDocument, isGap } from "../../../batchai_magics/widgets/frontend/log_document.js";

const bytes = (text) => new TextEncoder().encode(text);
const texts = (log) => log.rows.map((row) => (isGap(row) ? `[${row.start},${row.end})` : row.text));

test("a line split between two batches is one row", () => {
  const log = new LogDocument();
  log.append(0, bytes("one\ntw"));
  log.append(6, bytes("o\nthree"));
  assert.deepEqual(texts(log), ["one", "two", "three"]);
  assert.equal(log.end, 13);
});

test("a letter split between two batches is whole", () => {
  const log = new LogDocument();
  const raw = bytes("é\n");
  log.append(0, raw.subarray(0, 1));
  log.append(1, raw.subarray(1));
  assert.deepEqual(texts(log), ["é"]);
});

test("bytes that are known are not added again", () => {
  const log = new LogDocument();
  log.append(0, bytes("one\ntwo\n"));
  assert.equal(log.append(0, bytes("one\n")), 0);
  log.append(4, bytes("two\nthree\n"));
  assert.deepEqual(texts(log), ["one", "two", "three"]);
});

test("a hole is a gap that knows its lines", () => {
  const log = new LogDocument();
  log.append(0, bytes("one\n"));
  log.append(100, bytes("late\n"), 7);
  assert.deepEqual(texts(log), ["one", "[4,100)", "late"]);
  assert.equal(log.rows[1].lines, 7);
});

test("a line that a hole cuts in two is read again as one", () => {
  const log = new LogDocument();
  log.append(0, bytes("one\ntw"));
  log.append(14, bytes("four\n"), 2);
  assert.deepEqual(texts(log), ["one", "[4,14)", "four"]);
  log.fill(4, bytes("two\nthree\n"));
  assert.deepEqual(texts(log), ["one", "two", "three", "four"]);
});

test("a page from the end of a gap starts with a whole line", () => {
  const log = new LogDocument();
  log.append(20, bytes("last\n"));
  log.fill(10, bytes("56789\nabc\n"));
  assert.deepEqual(texts(log), ["[0,16)", "abc", "last"]);
});

test("a page from the start of a gap ends with a whole line", () => {
  const log = new LogDocument();
  log.append(20, bytes("last\n"));
  log.fill(0, bytes("first\nhal"));
  assert.deepEqual(texts(log), ["first", "[6,20)", "last"]);
});

test("pages fill a gap until it is gone", () => {
  const text = Array.from({ length: 50 }, (_, i) => `line ${i}\n`).join("");
  const log = new LogDocument();
  log.append(text.length, bytes("end\n"));
  for (let i = 0; i < 100 && log.rows.some(isGap); i += 1) {
    const gap = log.rows.find(isGap);
    const from = i % 2 ? gap.start : Math.max(gap.start, gap.end - 40);
    log.fill(from, bytes(text).subarray(from, from + 40));
  }
  assert.deepEqual(texts(log), [...text.trim().split("\n"), "end"]);
});

test("rows far from the reader become gaps and can be read again", () => {
  const log = new LogDocument();
  for (let i = 0; i < 30; i += 1) log.append(log.end, bytes(`line ${String(i).padStart(2, "0")}\n`));
  log.trim(10, log.end);
  assert.deepEqual(texts(log).slice(0, 2), ["[0,160)", "line 20"]);
  assert.equal(log.rows[0].lines, 20);
  log.fill(0, bytes("line 00\nline 01\n"));
  assert.deepEqual(texts(log).slice(0, 3), ["line 00", "line 01", "[16,160)"]);
});

test("a line of ten megabytes is cut and says so", () => {
  const log = new LogDocument();
  for (let i = 0; i < 100; i += 1) log.append(log.end, new Uint8Array(100_000).fill(120));
  assert.equal(log.rows.length, 1);
  assert.equal(log.end, 10_000_000);
  assert.ok(log.rows[0].text.length < 5000);
});

test("a progress bar without line ends stays at its newest state", () => {
  const log = new LogDocument();
  for (let i = 0; i <= 5000; i += 1) log.append(log.end, bytes(`\r${String(i).padStart(40)}/5000`));
  assert.equal(log.rows.length, 1);
  assert.ok(log.rows[0].text.endsWith("5000/5000"));
});

test("a file that was cut starts again", () => {
  const log = new LogDocument();
  log.append(0, bytes("old\n"));
  log.clear();
  log.append(0, bytes("new\n"));
  assert.deepEqual(texts(log), ["new"]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { cellLine } from "../../../../batchai_magics/widgets/frontend/job/failure_report.js";
import { span } from "../../../../batchai_magics/widgets/frontend/core/format.js";
import { groupsOf, isRanked } from "../../../../batchai_magics/widgets/frontend/job/log_tabs.js";
import { LogDocument } from "../../../../batchai_magics/widgets/frontend/job/log_document.js";
import { isGap, isOfStderr, rankOf, ranksFrom } from "../../../../batchai_magics/widgets/frontend/job/log_rows.js";
import { FlatLayout, WrappedLayout, width } from "../../../../batchai_magics/widgets/frontend/job/log_layout.js";

const bytes = (text) => new TextEncoder().encode(text);
const shape = (log) => log.rows.map((row) => (isGap(row) ? [row.start, row.end] : row.text));

test("a traceback line of the cell's script names the line of the cell", () => {
  assert.equal(cellLine('  File "/x/scripts/e/j/abc/train.py", line 7, in f', "train.py"), 8);
  assert.equal(cellLine('  File "/x/other.py", line 7', "train.py"), null);
  assert.equal(cellLine('  File "/x/train.py", line 7', ""), null);
});

test("one rank's lines fill the gap that was looked through, and no more", () => {
  const log = new LogDocument(1);
  log.extend(100);
  log.fillLines(60, 100, bytes("a\nb\n"), [62, 80]);
  assert.deepEqual(shape(log), [[0, 60], "a", "b"]);
  assert.equal(log.end, 100);
  log.extend(150);
  log.fillLines(100, 150, bytes(""), []);
  assert.deepEqual([shape(log), log.end], [[[0, 60], "a", "b"], 150]);
  log.fillLines(20, 60, bytes("z\n"), [30]);
  assert.deepEqual(shape(log), [[0, 20], "z", "a", "b"]);
});

test("wrapped rows are as high as their text is long", () => {
  const row = (text, start) => ({ start, end: start + 1, text });
  const rows = [row("x".repeat(25), 0), row("", 1), row("y", 2)];
  const layout = new WrappedLayout(rows, 10, new WeakMap());
  assert.deepEqual([layout.topOf(0), layout.topOf(1), layout.topOf(2), layout.height], [0, 54, 72, 90]);
  assert.deepEqual([layout.indexAt(53), layout.indexAt(54), layout.indexAt(1000)], [0, 1, 2]);
  assert.equal(width("a\tb"), 9);
});

test("rows of one height are found by where they are", () => {
  const layout = new FlatLayout([{}, {}, {}]);
  assert.deepEqual([layout.height, layout.topOf(2)], [54, 36]);
  assert.deepEqual([-5, 0, 17, 18, 53, 1000].map((pixels) => layout.indexAt(pixels)), [0, 0, 0, 1, 2, 2]);
  assert.equal(new FlatLayout([]).indexAt(0), 0);
});

test("a wrapped row that was measured is as high as it was", () => {
  const rows = [{ start: 0, end: 9, text: "x".repeat(9) }, { start: 9, end: 90, isGap: true, lines: null }];
  const layout = new WrappedLayout(rows, 10, new WeakMap([[rows[0], 40]]));
  assert.deepEqual([layout.topOf(1), layout.height], [40, 58]);
  assert.equal(new WrappedLayout(rows, 0, new WeakMap()).height, 10 * 18);
});

test("a tab reaches to the next eighth place", () => {
  assert.deepEqual(["\t", "1234567\tx", "12345678\t", "ab"].map(width), [8, 9, 16, 2]);
});

test("a span of time is said by its two greatest units", () => {
  assert.deepEqual([span(40), span(720), span(3660), span(6 * 86400 + 23 * 3600)], ["40 s", "12 min", "1 h 1 min", "6 d 23 h"]);
});

test("who wrote a byte is told from the first byte on, also of rank 0", () => {
  const rankAt = ranksFrom(100, new Int32Array([0, 0, 5, 3, 9, -1]));
  assert.deepEqual([99, 100, 104, 105, 108, 109, 500].map(rankAt), [-1, 0, 0, 3, 3, -1, -1]);
  assert.equal(rankOf({ text: "[1,3]<stdout>:x", rank: 0 }), 3);
  assert.deepEqual(["[3]<stdout>:x", "[12345,3]<stdout>:x", "see [1,3]<stdout>:x"].map((text) => rankOf({ text })), [3, 3, -1]);
});

test("each line knows who wrote it, also one that came in two pieces", () => {
  const log = new LogDocument();
  log.append(0, bytes("a\nb"), null, ranksFrom(0, new Int32Array([0, 2, 2, 5])));
  log.append(3, bytes("b\nc\n"), null, ranksFrom(3, new Int32Array([0, 5, 2, -1])));
  assert.deepEqual(log.rows.map(rankOf), [2, 5, -1]);
  assert.deepEqual(["[1,3]<stdout>:x", "[host@1,12]<stderr>:x", "[1,3] x"].map((text) => rankOf({ text })), [3, 12, -1]);
});

test("a line of stderr is told from others, with its rank where that is known", () => {
  const rows = [{ text: "a" }, { text: "b", rank: 3 }, { text: "c", rank: 1 << 20 }, { text: "d", rank: (1 << 20) + 6 }];
  assert.deepEqual(rows.map(isOfStderr), [false, false, true, true]);
  assert.deepEqual(rows.map(rankOf), [-1, 3, -1, 5]);
});

test("lines without an end stand behind all others until others take their place", () => {
  const log = new LogDocument();
  log.append(0, bytes("a\nb\n"));
  assert.equal(log.shown, log.rows);
  log.setOpenLines([{ text: "10%", is_error: true }]);
  assert.deepEqual(log.shown.map((row) => row.text), ["a", "b", "10%"]);
  assert.equal(log.shown, log.shown);
  assert.equal(isOfStderr(log.shown[2]), true);
  log.append(4, bytes("c\n"));
  log.setOpenLines([{ text: "20%", is_error: true }, { text: "wait", is_error: false }]);
  assert.deepEqual(log.shown.map((row) => row.text), ["a", "b", "c", "20%", "wait"]);
  assert.equal(log.end, 6);
  log.setOpenLines([]);
  assert.equal(log.shown, log.rows);
});

test("the output of both streams is the first tab, with the ranks of both", () => {
  const groups = groupsOf(["execution.log", "stdout.txt", "/output", "stderr.txt"]);
  assert.deepEqual(groups.map(({ label }) => label), ["output", "stdout", "stderr", "execution"]);
  assert.equal(isRanked("/output"), true);
});

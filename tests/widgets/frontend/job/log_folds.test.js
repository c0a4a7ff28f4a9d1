import assert from "node:assert/strict";
import { test } from "node:test";

import { LogDocument } from "../../../../batchai_magics/widgets/frontend/job/log_document.js";
import { isFold, isGap } from "../../../../batchai_magics/widgets/frontend/job/log_rows.js";

const encoder = new TextEncoder();
const record = (step, rank) => `{"time": 1700000000.123, ${rank === undefined ? "" : `"rank": ${rank}, `}"step": ${step}, "loss": 0.5}\n`;
const records = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => record(from + i)).join("");

function documentOf(...texts) {
  const log = new LogDocument();
  for (const text of texts) log.append(log.end, encoder.encode(text));
  return log;
}

/** The shown rows: texts of lines, and the words of folds. */
const shown = (log) => log.shown.map((row) => (isFold(row) ? `${row.count}${row.words}` : isGap(row) ? "gap" : row.text));

test("records of log() one after another are one row", () => {
  const log = documentOf("begin\n", records(1, 120), "saved\n", records(121, 130));
  assert.deepEqual(shown(log), ["begin", "120, step 1 to 120", "saved", "10, step 121 to 130"]);
});

test("a record alone is folded, too", () => {
  assert.deepEqual(shown(documentOf("begin\n", record(7), "end\n")), ["begin", "1, step 7", "end"]);
});

test("the steps of a fold are the lowest and the highest, in whatever order ranks write", () => {
  const text = [record(31, 0), record(5, 1), record(30, 2)].join("");
  assert.deepEqual(shown(documentOf(text)), ["3, step 5 to 31"]);
});

test("JSON of others are lines like any other", () => {
  const other = '{"time": "12:00", "step": 1, "loss": 0.5}\n{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.5}\n';
  assert.equal(shown(documentOf(other)).length, 3);
});

test("records of all ranks are folded, whatever they are tagged with", () => {
  const text = [record(5, 0), record(5, 1), `[1,2]<stdout>:${record(5, 2)}`, record(6, 0)].join("");
  assert.deepEqual(shown(documentOf(text)), ["4, step 5 to 6"]);
});

test("a fold is opened and closed, and grows in both states", () => {
  const log = documentOf(records(1, 2));
  const [fold] = log.shown;
  log.folds.toggle(fold);
  log.append(log.end, encoder.encode(record(3)));
  assert.deepEqual(shown(log).length, 4);
  assert.equal(log.shown[0], fold); // the same row, so that a click on it is one
  log.folds.toggle(fold);
  log.append(log.end, encoder.encode(record(4)));
  assert.deepEqual(shown(log), ["4, step 1 to 4"]);
});

test("a line that is searched for is unfolded", () => {
  const log = documentOf("begin\n", records(1, 3));
  const { start } = log.rows[2];
  log.folds.open(start);
  assert.equal(log.shown[log.indexAt(start, log.shown)].start, start);
});

test("the row above an open fold has a place of its own", () => {
  const log = documentOf("begin\n", records(1, 3));
  log.folds.open(log.rows[1].start);
  const [, fold, first] = log.shown;
  assert.equal(log.indexAt(fold.start, log.shown), 1);
  assert.equal(log.indexAt(first.start, log.shown), 2);
});

test("a record that comes in pieces is folded when it can be told", () => {
  const [head, tail] = [record(2).slice(0, 10), record(2).slice(10)];
  const log = documentOf(record(1), head);
  assert.equal(shown(log).length, 2);
  log.append(log.end, encoder.encode(tail));
  assert.deepEqual(shown(log), ["2, step 1 to 2"]);
});

test("records that are loaded later are folded with their neighbours", () => {
  const log = new LogDocument();
  const [first, second] = [encoder.encode(records(1, 2)), encoder.encode(records(3, 4))];
  log.append(first.length, second);
  assert.deepEqual(shown(log), ["gap", "2, step 3 to 4"]);
  log.fill(0, first);
  assert.deepEqual(shown(log), ["4, step 1 to 4"]);
});

test("the document itself has every line, for search and copies", () => {
  assert.equal(documentOf(records(1, 5)).rows.length, 5);
});

test("a log that starts again has nothing folded or open", () => {
  const log = documentOf(records(1, 3));
  log.folds.toggle(log.shown[0]);
  log.clear();
  log.append(0, encoder.encode(records(1, 2)));
  assert.deepEqual(shown(log), ["2, step 1 to 2"]);
});

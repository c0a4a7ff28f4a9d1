import assert from "node:assert/strict";
import { test } from "node:test";

import { LogDocument } from "../../../../batchai_magics/widgets/frontend/job/log_document.js";
import { isGap } from "../../../../batchai_magics/widgets/frontend/job/log_rows.js";

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
  assert.equal(log.append(0, bytes("one\n")), 1);
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

test("a page that reaches the end of a gap keeps a last line that has no end", () => {
  const log = new LogDocument();
  log.extend(6);
  assert.ok(log.fill(0, bytes("one\ntw")));
  assert.deepEqual(texts(log), ["one", "tw"]);
});

test("a page with the end of one line alone is shown, so that reading goes on", () => {
  const log = new LogDocument();
  log.append(20, bytes("last\n"));
  assert.ok(log.fill(10, bytes("56789abcd\n")));
  assert.deepEqual(texts(log), ["[0,10)", "56789abcd", "last"]);
});

test("a page without any line end is shown, so that reading goes on", () => {
  const log = new LogDocument();
  log.append(20, bytes("last\n"));
  assert.ok(log.fill(0, bytes("01234")));
  assert.deepEqual(texts(log), ["01234", "[5,20)", "last"]);
});

test("a page that reaches beyond its gap ends with it", () => {
  const log = new LogDocument();
  log.append(4, bytes("two\n"));
  assert.ok(log.fill(0, bytes("one\ntwo\n")));
  assert.deepEqual(texts(log), ["one", "two"]);
});

test("nothing is filled where nothing is missing, or with nothing", () => {
  const log = new LogDocument();
  assert.equal(log.fill(0, bytes("one\n")), false);
  log.append(4, bytes("two\n"));
  assert.equal(log.fill(0, bytes("")), false);
  assert.equal(log.fill(4, bytes("xxx\n")), false);
  assert.deepEqual(texts(log), ["[0,4)", "two"]);
});

test("what was sent twice changes nothing", () => {
  const log = new LogDocument();
  log.append(0, bytes("one\n"));
  const rows = log.rows.slice();
  assert.deepEqual([log.append(0, bytes("one\n")), log.append(2, bytes("e\n")), log.append(4, bytes(""))], [0, 0, 0]);
  assert.deepEqual(log.rows, rows);
});

test("a file is never shorter than what is known of it", () => {
  const log = new LogDocument();
  log.append(0, bytes("one\n"));
  log.extend(2);
  log.extend(4);
  assert.deepEqual([log.size, texts(log)], [4, ["one"]]);
});

test("the lines that several holes have are summed up where all are known", () => {
  const log = new LogDocument();
  log.append(100, bytes("x"), 7);
  log.append(200, bytes("y\n"), 3);
  assert.deepEqual([texts(log), log.rows[0].lines], [["[0,200)", "y"], 10]);
  const third = new LogDocument();
  third.append(100, bytes("x"), 5);
  third.append(200, bytes("y\n"), null);
  assert.equal(third.rows[0].lines, null);
  const other = new LogDocument();
  other.append(100, bytes("x"), null);
  other.append(200, bytes("y\n"), 3);
  assert.equal(other.rows[0].lines, null);
});

test("rows before and behind the reader become gaps, and an unfinished line with them", () => {
  const log = new LogDocument();
  for (let i = 0; i < 30; i += 1) log.append(log.end, bytes(`line ${String(i).padStart(2, "0")}\n`));
  log.append(log.end, bytes("open"));
  log.trim(29, 0);
  assert.equal(log.rows.length, 31, "a few rows more than wanted are let be");
  log.trim(10, 15 * 8);
  assert.deepEqual(texts(log), ["[0,80)", ...Array.from({ length: 10 }, (_, i) => `line ${10 + i}`), "[160,244)"]);
  assert.equal(log.end, 244);
  log.append(244, bytes("ed\n"));
  assert.deepEqual(texts(log).at(-1), "ed");
});

test("the gap over trimmed rows knows their number only where it was known", () => {
  const log = new LogDocument();
  log.extend(100);
  for (let i = 0; i < 30; i += 1) log.append(log.end, bytes("x\n"));
  log.trim(10, log.end);
  assert.equal(log.rows[0].lines, null);
});

test("what a row holds is found by each of its bytes", () => {
  const log = new LogDocument();
  log.append(0, bytes("a\nbb\n"));
  assert.deepEqual([0, 1, 2, 4, 5, 99].map((offset) => log.indexAt(offset)), [0, 0, 1, 1, 1, 1]);
});

test("a line that came in two pieces is its writer's", () => {
  const log = new LogDocument();
  log.append(0, bytes("a"), null, () => 0);
  log.append(1, bytes("b"), null, () => 1);
  log.append(2, bytes("c\n"), null, () => 1);
  assert.deepEqual(log.rows.map(({ text, rank }) => [text, rank]), [["abc", 0]]);
});

test("one rank's page ends where its gap does, and what was looked through is known", () => {
  const log = new LogDocument(0);
  log.extend(50);
  log.fillLines(0, 50, bytes("a\nb\nz\n"), [4, 10, 50]);
  assert.deepEqual([texts(log), log.end], [["a", "b"], 50]);
  log.extend(80);
  log.fillLines(60, 70, bytes("c\n"), [60]);
  assert.deepEqual(texts(log), ["a", "b", "[50,60)", "c", "[70,80)"]);
  log.fillLines(50, 50, bytes("no\n"), [50]);
  log.fillLines(50, 60, bytes("b\nd\n"), [10, 55]);
  assert.deepEqual(texts(log), ["a", "b", "d", "c", "[70,80)"]);
  assert.equal(log.end, 80);
});

test("a file that was cut has no known end any more", () => {
  const log = new LogDocument(0);
  log.extend(50);
  log.fillLines(0, 50, bytes(""), []);
  log.clear();
  assert.deepEqual([log.end, log.size, log.rows], [0, 0, []]);
});

test("a line may be as long as is shown, and end as on Windows", () => {
  const log = new LogDocument();
  log.append(0, bytes(`${"x".repeat(4000)}\r\ny\r\n`));
  assert.deepEqual(texts(log), ["x".repeat(4000), "y"]);
  const long = new LogDocument();
  long.append(0, bytes(`${"x".repeat(5000)}\n`));
  assert.equal(texts(long)[0], `${"x".repeat(4000)} … 1.0 KB more in this line`);
});

test("paths in the copy of the user's files are shown as their own", () => {
  const copies = String.raw`(?<=["'])/[^"'\n]*?(?:3be9)/|(?<![^\s(=:,<])/(?!/)[^\s"']*?(?:3be9)/`;
  const log = new LogDocument(null, () => copies);
  log.append(0, bytes('  File "/home/me/scripts/3be9/train.py", line 3\nread /share/3be9/data/x.csv, see htt'));
  log.append(84, bytes("p://3be9/x\n"));
  assert.deepEqual(texts(log), ['  File "train.py", line 3', "read data/x.csv, see http://3be9/x"]);
});

test("a page is cut at the end of its gap, wherever that is", () => {
  const log = new LogDocument();
  log.append(0, bytes("aa\n"));
  log.append(9, bytes("end\n"));
  log.fill(3, bytes("bb\ncc\nend\n"));
  assert.deepEqual(texts(log), ["aa", "bb", "cc", "end"]);
});

test("a row has a writer only where one is known", () => {
  const log = new LogDocument();
  log.append(0, bytes("a\n"));
  log.append(2, bytes("b\n"), null, () => -1);
  assert.deepEqual(log.rows, [{ start: 0, end: 2, text: "a" }, { start: 2, end: 4, text: "b" }]);
});

test("the lines of one rank end where they do, and fill nothing but a gap", () => {
  const log = new LogDocument(0);
  log.extend(50);
  log.fillLines(0, 50, bytes("a\nbb\n"), [4, 10]);
  log.fillLines(4, 50, bytes("x\n"), [4]);
  assert.deepEqual(log.rows, [{ start: 4, end: 6, text: "a" }, { start: 10, end: 13, text: "bb" }]);
});

test("what becomes one gap has the lines of its rows and of its gaps", () => {
  const log = new LogDocument();
  log.append(0, bytes("a\n"));
  log.append(100, bytes("b\n"), 7);
  for (let i = 0; i < 20; i += 1) log.append(log.end, bytes("x\n"));
  log.trim(10, log.end);
  assert.equal(log.rows[0].lines, 1 + 7 + 1 + 10);
  const rows = log.rows;
  log.trim(10, log.end);
  assert.equal(log.rows, rows, "nothing is done where nothing is to be");
});

test("a short line keeps what it was overwritten with for its look", () => {
  const log = new LogDocument();
  log.append(0, bytes("10%\r20%\n"));
  assert.deepEqual(texts(log), ["10%\r20%"]);
});

test("of an unfinished line so much is kept and no more, the newest state where it was overwritten", () => {
  const sized = (...parts) => {
    const log = new LogDocument();
    log.append(0, bytes(parts.join("")));
    return [log.open.length, log.open[0]];
  };
  assert.deepEqual(sized("x".repeat(60_000)), [60_000, 120]);
  assert.deepEqual(sized("x".repeat(70_000)), [1 << 16, 120]);
  assert.deepEqual(sized("x".repeat(40_000), "\r", "y".repeat(40_000)), [40_001, 13]);
  assert.deepEqual(sized("x", "\r", "y".repeat(70_000)), [1 << 16, 13]);
});

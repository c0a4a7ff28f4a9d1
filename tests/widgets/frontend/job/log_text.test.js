import assert from "node:assert/strict";
import { test } from "node:test";

import { collapse, finder, isRisky, marked, plain, spans } from "../../../../batchai_magics/widgets/frontend/job/log_text.js";
import { counted, duration, quantity, size } from "../../../../batchai_magics/widgets/frontend/core/format.js";

test("a carriage return overwrites from the start of the line", () => {
  assert.equal(collapse("10%\r20%\r100%"), "100%");
  assert.equal(collapse("abcdef\rXY"), "XYcdef");
});

test("colours become classes and leave the text alone", () => {
  const line = "\x1b[1;31mred\x1b[0m plain \x1b[38;5;2mgreen\x1b[39m end";
  assert.deepEqual(spans(line).map((s) => [s.text, s.classes]), [
    ["red", "ba-fg-red ba-bold"],
    [" plain ", ""],
    ["green", "ba-fg-green"],
    [" end", ""],
  ]);
  assert.equal(plain(line), "red plain green end");
});

test("a progress bar ends with the state that stood last", () => {
  assert.equal(collapse("\r10%\r"), "10%");
  assert.equal(collapse("\x1b[32mlong text\x1b[0m\r\x1b[31mX\x1b[0m"), "\x1b[31mX\x1b[0m");
});

test("bright, marked and switched-off colours are known, others leave the theme's", () => {
  const classes = (codes) => spans(`\x1b[${codes}mx`)[0].classes;
  assert.deepEqual(["91", "103", "1;2;3;4", "31;0", "1;22;33", "44;49", "31;39"].map(classes), [
    "ba-fg-red", "ba-bg-yellow", "ba-bold ba-dim ba-italic ba-underline", "", "ba-fg-yellow", "", "",
  ]);
  assert.deepEqual(["38;5;9", "48;5;2", "38;5;200;1", "38;2;1;2;3;4"].map(classes), ["ba-fg-red", "ba-bg-green", "ba-bold", "ba-underline"]);
});

test("no control character is left of a line, and nothing conceals text", () => {
  const line = "a\x9b31m\x9d52;c;aGk=\x07\x85b\b\b \x1b[8mshown\x1b[28m";
  assert.equal(plain(line), "a31m52;c;aGk=b shown");
  assert.deepEqual(spans(line).map((span) => span.classes).filter(Boolean), []);
  assert.equal(spans(line).map((span) => span.text).join(""), plain(line));
});

test("markup in a log is text", () => {
  assert.deepEqual(spans("<script>alert(1)</script>"), [{ text: "<script>alert(1)</script>", classes: "" }]);
});

test("a search finds plain text whatever its signs mean elsewhere", () => {
  assert.deepEqual(finder("a.c", false).find("abc a.c"), [[4, 7]]);
  assert.deepEqual(finder("a.c", true).find("abc a.c"), [[0, 3], [4, 7]]);
});

test("capitals count only in plain text that has some", () => {
  assert.equal(finder("Err", false).find("err Err").length, 1);
  assert.equal(finder("err", false).find("err Err").length, 2);
  assert.equal(finder("Err", true).find("err Err").length, 2);
  assert.deepEqual(finder("x*", true).find("axb"), [[1, 2]]);
  assert.equal(finder("", false).find, null);
});

test("an ill-formed expression is told, not thrown", () => {
  const { find, error } = finder("(", true);
  assert.equal(find, null);
  assert.ok(error);
});

test("a hit across two colours is marked in both", () => {
  const pieces = [{ text: "ab", classes: "x" }, { text: "cd", classes: "y" }];
  assert.deepEqual(marked(pieces, [[1, 3]]).map((p) => [p.text, p.isHit]), [
    ["a", false],
    ["b", true],
    ["c", true],
    ["d", false],
  ]);
});

test("a hit at the edge of a colour cuts nothing", () => {
  assert.deepEqual(marked([{ text: "ab", classes: "" }, { text: "cd", classes: "" }], [[0, 2]]).map((p) => p.text), ["ab", "cd"]);
});

test("numbers are short", () => {
  assert.deepEqual([size(999), size(1000), size(12_345), size(5e15)], ["999 B", "1.0 KB", "12 KB", "5000 TB"]);
  assert.equal(counted(0, "line"), "0 lines");
  assert.equal(duration(3723), "1:02:03");
  assert.equal(size(1_234_567), "1.2 MB");
  assert.equal(quantity(0.123456), "0.123");
  assert.equal(quantity(null), "–");
  assert.equal(counted(1, "line"), "1 line");
});

test("an expression that the browser could hang on is known by its look", () => {
  for (const source of ["(a+)+", "(a|b)*", "((ab)?c)+", "(?:a{2,})+$", "(a?){30}", "a*b*c*", "([)]+)+"]) {
    assert.equal(isRisky(source), true, source);
  }
  for (const source of ["a+", "(ab)+", "(error|bad)", "\\(a+\\)+", "[(a+)]+", "(ab?){2,3}", "(a{3})+", "a.*b.*c"]) {
    assert.equal(isRisky(source), false, source);
  }
});

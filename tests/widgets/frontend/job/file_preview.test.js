import assert from "node:assert";
import { test } from "node:test";

import { imageType, previewSize, rows } from "../../../../batchai_magics/widgets/frontend/job/file_list.js";

test("a table has the cells that were written", () => {
  const text = 'step,name\r\n1,"a, ""b""\nc"\n\n2,\n3,last';
  assert.deepStrictEqual(rows(text, ",", false), [["step", "name"], ["1", 'a, "b"\nc'], [""], ["2", ""], ["3", "last"]]);
  assert.deepStrictEqual(rows("a\tb\n1,5\t", "\t", false), [["a", "b"], ["1,5", ""]]);
});

test("a row that is cut off is left out", () => {
  assert.deepStrictEqual(rows("a,b\n1,2\n3,4", ",", true), [["a", "b"], ["1", "2"]]);
  assert.deepStrictEqual(rows('a\n"not clo', ",", true), [["a"]]);
});

test("a long table is shown from its start", () => {
  assert.strictEqual(rows("1,2\n".repeat(1000), ",", false).length, 200);
});

test("large images and files are not read whole", () => {
  assert.strictEqual(imageType("a/b.SVG", 10), "image/svg+xml");
  assert.strictEqual(imageType("b.png", 5 << 20), "");
  assert.strictEqual(previewSize("b.png", 3 << 20), 3 << 20);
  assert.strictEqual(previewSize("b.html", 3 << 20), 1 << 16);
  assert.strictEqual(previewSize("b.json", 1 << 17), 1 << 17);
  assert.strictEqual(previewSize("b.json", 1 << 20), 1 << 16);
});

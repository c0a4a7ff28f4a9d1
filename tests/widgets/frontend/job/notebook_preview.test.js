import assert from "node:assert";
import { test } from "node:test";

import { previewSize } from "../../../../batchai_magics/widgets/frontend/job/file_list.js";
import { cellsOf } from "../../../../batchai_magics/widgets/frontend/job/notebook_preview.js";

/** @param {unknown[]} outputs */
function outputsOf(outputs) {
  const cell = { cell_type: "code", execution_count: 2, source: ["a = 1\n", "a"], outputs };
  return cellsOf(JSON.stringify({ cells: [cell], nbformat: 4 }))?.[0];
}

test("a cell has its number and its code, one that did not run has no number", () => {
  const cell = outputsOf([]);
  assert.deepStrictEqual([cell?.count, cell?.source], ["2", "a = 1\na"]);
  const text = JSON.stringify({ cells: [{ cell_type: "code", execution_count: null, source: "b" }] });
  assert.deepStrictEqual(cellsOf(text), [{ kind: "code", count: " ", source: "b", outputs: [] }]);
});

test("printed text is what a terminal shows of it, tracebacks are errors", () => {
  const bar = { output_type: "stream", name: "stdout", text: ["10%\r100%\n", "done\n"] };
  const failure = { output_type: "error", ename: "ValueError", evalue: "no", traceback: ["\u001b[31mValueError\u001b[0m: no"] };
  assert.deepStrictEqual(outputsOf([bar, failure])?.outputs, [
    { kind: "text", text: "100%\ndone" },
    { kind: "error", text: "ValueError: no" },
  ]);
});

test("of a result with several types, an image comes before HTML, and HTML keeps its text", () => {
  const figure = { output_type: "display_data", data: { "image/png": "aGk=\n", "text/plain": "<Figure>" } };
  const frame = { output_type: "execute_result", data: { "text/html": ["<table>", "</table>"], "text/plain": "  a\n0 1" } };
  const drawn = { output_type: "display_data", data: { "image/svg+xml": "<svg/>" } };
  assert.deepStrictEqual(outputsOf([figure, frame, drawn])?.outputs, [
    { kind: "image", source: "data:image/png;base64,aGk=" },
    { kind: "html", html: "<table></table>", text: "  a\n0 1" },
    { kind: "image", source: "data:image/svg+xml,%3Csvg%2F%3E" },
  ]);
});

test("a notebook is read whole, and a text that is none has no cells", () => {
  assert.strictEqual(previewSize("a/run.ipynb", 3 << 20), 3 << 20);
  assert.strictEqual(previewSize("a/run.ipynb", 5 << 20), 1 << 16);
  assert.strictEqual(cellsOf('{"cells": [{"cell_type": "co'), null);
  assert.strictEqual(cellsOf("{}"), null);
});

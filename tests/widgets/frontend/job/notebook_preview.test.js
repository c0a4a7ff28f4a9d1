import assert from "node:assert";
import { afterEach, beforeEach, test } from "node:test";

import { previewSize } from "../../../../batchai_magics/widgets/frontend/job/file_list.js";
import { cellsOf, notebookPreview } from "../../../../batchai_magics/widgets/frontend/job/notebook_preview.js";

/** As much of an element as a preview needs. */
class Box {
  parts = [];
  append = (...parts) => this.parts.push(...parts);
  setAttribute = () => {};
  constructor(tag) {
    this.tag = tag;
  }
}
beforeEach(() => (globalThis.document = { createElement: (tag) => new Box(tag) }));
afterEach(() => delete globalThis.document);

/** What the preview of a cell with Markdown shows: its text, in which `<tag>` is a style. */
function shown(source) {
  const markup = (part) => (typeof part === "string" ? part : `<${part.tag}>${part.parts.map(markup).join("")}</${part.tag}>`);
  const [cell] = notebookPreview(cellsOf(JSON.stringify({ cells: [{ cell_type: "markdown", source }] }))).parts;
  return cell.parts[0].parts.map(markup).join("");
}

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

test("headings, emphasis and code of Markdown are styled", () => {
  assert.strictEqual(shown("a **b c** *d*, (*e*) `f`.\n## G `h` ##  \ni\nj"), "a <strong>b c</strong> <em>d</em>, (<em>e</em>) <code>f</code>.<strong>G <code>h</code></strong>i\nj");
  assert.strictEqual(shown("# C#\r\na\r\n\r\n# # #\r\nb"), "<strong>C#</strong>a\n<strong>#</strong>b");
});

test("formulas, operators, escaped signs and code between fences stay as they are written", () => {
  const lines = ["run(**a, **b)", "2**3 + 3**2", "$a*b*c$", "$x^*$ and $y^*$", "5*3*2", "a * b * c", "α*β*γ", "\\*a\\*", "``a`b``", "- *a", "#no", "####### no"];
  for (const line of lines) assert.strictEqual(shown(line), line);
  const fenced = "~~~\n```\n# no *a*\n~~~\n```py\n# no `a`\n\n``\n````";
  assert.strictEqual(shown(`${fenced}\n*a*`), `${fenced}\n<em>a</em>`);
  assert.strictEqual(shown("```a```\n*a*"), "```a```\n<em>a</em>");
});

test("any source is shown, in time that grows with its length", () => {
  assert.strictEqual(shown(5), "5");
  for (const line of ["#", ...["\r", "\u2028", " ", "#", "# ", "*", "**a ", "*a", "`", "``a", "$", "\\*"].map((part) => `# ${part.repeat(20_000)}x`)]) shown(line);
  assert.strictEqual(shown("a\n".repeat(200_000)).length, 400_000);
  assert.strictEqual(shown("*a* ".repeat(200_000)).length, 2_000_000 + 400_000 - 200_000);
});

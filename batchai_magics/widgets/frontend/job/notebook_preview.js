// An executed notebook as its cells: code, text, images and tables; nothing in it runs or is loaded from elsewhere.

import { el } from "../core/dom.js";
import { plain } from "./log_text.js";

/** @typedef {{kind: "text", text: string} | {kind: "error", text: string}} TextOutput */
/** @typedef {TextOutput | {kind: "image", source: string} | {kind: "html", html: string, text: string}} CellOutput */

/** @typedef {{kind: "code" | "markdown" | "raw", count: string, source: string, outputs: CellOutput[]}} NotebookCell */

export const MAX_ROWS = 200; // of a table
export const MAX_COLUMNS = 50;

/** Types of images, the best first. */
const IMAGES = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/svg+xml"];

/**
 * The cells of a notebook; null if the text is none, such as one that is cut off.
 * @param {string} text
 * @returns {NotebookCell[] | null}
 */
export function cellsOf(text) {
  try {
    const { cells } = JSON.parse(text);
    return cells.map((/** @type {any} */ cell) => ({
      kind: cell.cell_type,
      count: String(cell.execution_count ?? " "),
      source: joined(cell.source),
      outputs: (cell.outputs ?? []).flatMap(outputOf),
    }));
  } catch {
    return null;
  }
}

/**
 * @param {any} output as nbformat 4 has it
 * @returns {CellOutput[]}
 */
function outputOf(output) {
  if (output.output_type === "stream") return [{ kind: "text", text: readable(output.text) }];
  if (output.output_type === "error") {
    const lines = output.traceback?.length ? output.traceback : [`${output.ename}: ${output.evalue}`];
    return [{ kind: "error", text: readable(lines.join("\n")) }];
  }
  const data = output.data ?? {};
  const type = IMAGES.find((each) => each in data);
  if (type) return [{ kind: "image", source: address(type, joined(data[type])) }];
  const shown = readable(data["text/plain"] ?? data["text/markdown"] ?? "");
  if (data["text/html"]) return [{ kind: "html", html: joined(data["text/html"]), text: shown }];
  return shown ? [{ kind: "text", text: shown }] : [];
}

/**
 * @param {string} type
 * @param {string} image its text, or its bytes in base64
 */
function address(type, image) {
  return type === "image/svg+xml" ? `data:${type},${encodeURIComponent(image)}` : `data:${type};base64,${image.replace(/\s/g, "")}`;
}

/** @param {string | string[]} text as nbformat has it, or anything else that a program has written there */
function joined(text) {
  return Array.isArray(text) ? text.join("") : String(text ?? "");
}

/** @param {string | string[]} text */
function readable(text) {
  return joined(text).replace(/\n$/, "").split("\n").map(plain).join("\n");
}

/** @param {NotebookCell[]} cells */
export function notebookPreview(cells) {
  const shown = cells.filter((cell) => cell.source || cell.outputs.length);
  return filled(el("div", { class: "ba-notebook" }), shown.map(cellElement));
}

/** @param {NotebookCell} cell */
function cellElement({ kind, count, source, outputs }) {
  const cell = el("div", { class: "ba-cell" });
  if (kind !== "code") return filled(cell, [el("div", { class: "ba-prose" }, source)]);
  const code = el("pre", { class: "ba-cell-code" }, source);
  return filled(cell, [el("span", { class: "ba-muted" }, `[${count}]`), filled(el("div", {}, code), outputs.map(outputElement))]);
}

/**
 * An element with more children, of which there may be more than a call can have arguments.
 * @param {HTMLElement} element
 * @param {Iterable<Node | string>} children
 */
function filled(element, children) {
  for (const child of children) element.append(child);
  return element;
}

/** @param {CellOutput} output */
function outputElement(output) {
  if (output.kind === "image") return el("img", { src: output.source, alt: "output of the cell" });
  if (output.kind === "error") return el("pre", { class: "ba-cell-error" }, output.text);
  if (output.kind === "text") return el("pre", {}, output.text);
  const table = new DOMParser().parseFromString(output.html, "text/html").querySelector("table"); // inert: it loads and runs nothing
  return table ? tableElement(table) : el("pre", {}, output.text || "HTML: download the notebook to see it.");
}

/**
 * The texts of a table in HTML, such as that of a DataFrame, up to some rows and columns.
 * @param {HTMLTableElement} table
 */
function tableElement(table) {
  const rows = [...table.rows].slice(0, MAX_ROWS).map((row) => el("tr", {}, ...[...row.cells].slice(0, MAX_COLUMNS).map(cellOfTable)));
  const missing = table.rows.length - rows.length;
  return el("div", {}, el("table", { class: "ba-cells" }, ...rows), missing ? el("div", { class: "ba-muted" }, `… ${missing} more rows`) : null);
}

/** @param {HTMLTableCellElement} cell */
function cellOfTable(cell) {
  const spans = { colspan: cell.colSpan > 1 && cell.colSpan, rowspan: cell.rowSpan > 1 && cell.rowSpan };
  return el(cell.tagName === "TH" ? "th" : "td", spans, (cell.textContent ?? "").trim());
}

// A file's bytes as elements: an image, JSON, a table or text. Everything is text or an image, so no script can run.

import { el } from "../core/dom.js";
import { size } from "../core/format.js";
import { PAGE_BYTES } from "./job_session.js";
import { plain } from "./log_text.js";

const MAX_TEXT_BYTES = 1 << 16;
const MAX_JSON_BYTES = 1 << 18;
const MAX_IMAGE_BYTES = 4 << 20;
const MAX_ROWS = 200;
const MAX_COLUMNS = 50;
/** @type {Record<string, string>} */
const IMAGES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", bmp: "image/bmp", svg: "image/svg+xml" };
/** @type {Record<string, string>} */
const SEPARATORS = { csv: ",", tsv: "\t" };

/** @param {string} path */
function ending(path) {
  return path.split(".").pop()?.toLowerCase() ?? "";
}

/**
 * The type of a file that is shown as an image; empty for others, and for large ones.
 * @param {string} path
 * @param {number} bytes
 */
export function imageType(path, bytes) {
  return bytes <= MAX_IMAGE_BYTES ? IMAGES[ending(path)] ?? "" : "";
}

/**
 * How many bytes of a file its preview needs.
 * @param {string} path
 * @param {number} bytes
 */
export function previewSize(path, bytes) {
  if (imageType(path, bytes)) return bytes;
  return Math.min(bytes, ending(path) === "json" && bytes <= MAX_JSON_BYTES ? MAX_JSON_BYTES : MAX_TEXT_BYTES);
}

/**
 * The preview of a file that is no image.
 * @param {Uint8Array} bytes its first bytes
 * @param {string} path
 * @param {number} total its size
 */
export function textPreview(bytes, path, total) {
  if (!total) return [el("div", { class: "ba-muted" }, "This file is empty.")];
  if (bytes.subarray(0, PAGE_BYTES).includes(0)) return [el("div", { class: "ba-muted" }, "Not a text file: download it to open it.")];
  const text = new TextDecoder().decode(bytes);
  const separator = SEPARATORS[ending(path)];
  if (separator) return [table(rows(text, separator, bytes.length < total)), more(total - bytes.length)];
  const shown = (ending(path) === "json" && bytes.length === total && indented(text)) || text;
  return [el("pre", {}, shown.split("\n").map(plain).join("\n")), more(total - bytes.length)];
}

/** @param {number} bytes */
function more(bytes) {
  return bytes > 0 ? el("div", { class: "ba-muted" }, `… ${size(bytes)} more`) : el("span");
}

/**
 * The same JSON with a line for each value; empty for what is none.
 * @param {string} text
 */
function indented(text) {
  try {
    const value = JSON.parse(text);
    return exact(text) ? JSON.stringify(value, null, 2) : "";
  } catch {
    return "";
  }
}

/**
 * Whether parsing loses no digit: integers beyond 2^53 are shown as they are written.
 * @param {string} text
 */
function exact(text) {
  return !/\d{16}/.test(text);
}

/**
 * The cells of the first rows, also quoted ones with line breaks; a last row that is cut off is left out.
 * @param {string} text
 * @param {string} separator
 * @param {boolean} isCut
 */
export function rows(text, separator, isCut) {
  /** @type {string[][]} */
  const found = [];
  const cell = new RegExp(`("(?:[^"]|"")*"|[^${separator}\\r\\n]*)(${separator}|\\r?\\n|\\r|$)`, "y");
  /** @type {string[]} */
  let row = [];
  while (cell.lastIndex < text.length && found.length < MAX_ROWS) {
    const match = cell.exec(text);
    if (!match) break; // text behind a closing quote
    const [, written, end] = match;
    row.push(unquoted(written ?? ""));
    if (end === separator) continue;
    if (end || !isCut) found.push(row);
    row = [];
  }
  return row.length && !isCut ? [...found, [...row, ""]] : found;
}

/** @param {string} cell */
function unquoted(cell) {
  return cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell;
}

/** @param {string[][]} found */
function table(found) {
  const [header = [], ...others] = found;
  const line = (/** @type {"th" | "td"} */ tag, /** @type {string[]} */ cells) =>
    el("tr", {}, ...cells.slice(0, MAX_COLUMNS).map((text) => el(tag, tag === "th" ? { scope: "col" } : {}, plain(text))));
  return el("table", { class: "ba-cells" }, el("thead", {}, line("th", header)), el("tbody", {}, ...others.map((cells) => line("td", cells))));
}

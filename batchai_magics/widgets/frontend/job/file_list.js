// The job's output files: a tree loaded level by level, results first, previews, downloads. All bytes come from the kernel.

import { el, saveFile, setText } from "../core/dom.js";
import { nodeName, size } from "../core/format.js";
import { bytesOf } from "./job_data.js";
import { MAIN_LOG, PAGE_BYTES } from "./job_session.js";
import { plain } from "./log_text.js";
import { MAX_COLUMNS, MAX_ROWS, cellsOf, notebookPreview } from "./notebook_preview.js";

/** @typedef {import("./job_session.js").JobSession} JobSession */

/** @typedef {{directory: string, path: string, bytes: number}} FileEntry */

const MOST_DOWNLOAD = 32 << 20;
const READ_BYTES = 1 << 18;

export class FileList {
  /** @param {JobSession} session */
  constructor(session) {
    this.session = session;
    this.turn = 0; // number of the current preview
    /** @type {string} */
    this.address = "";
    this.tree = el("ul", { class: "ba-tree", role: "tree", "aria-label": "files", keydown: (/** @type {KeyboardEvent} */ e) => this.#onKey(e) });
    this.preview = el("div", { class: "ba-preview", tabindex: 0, role: "region", "aria-label": "preview" });
    this.element = el("div", { class: "ba-files", hidden: true }, this.tree, this.preview);
  }

  /** @param {boolean} isShown */
  show(isShown) {
    this.element.hidden = !isShown;
    if (isShown) void this.#load();
  }

  /** Cancels loading. */
  stop() {
    this.turn += 1;
    URL.revokeObjectURL(this.address);
  }

  async #load() {
    const { directories } = this.session.host.get("facts");
    setText(this.preview, "Select a file to preview it.");
    this.turn += 1;
    const turn = this.turn;
    const lists = await Promise.all(directories.map((/** @type {string} */ directory) => this.#list(directory, "")));
    if (turn !== this.turn) return;
    const filled = lists.flatMap((rows, at) => (rows.length ? [this.#folder(directories[at], "", directories[at], rows)] : []));
    this.tree.replaceChildren(...(filled.length ? filled : [el("li", { class: "ba-muted" }, "The job has written no files yet.")]));
    this.#button(this.tree)?.setAttribute("tabindex", "0");
    this.#button(this.tree)?.click();
  }

  /**
   * @param {string} directory
   * @param {string} path
   * @param {string} name
   * @param {HTMLElement[]} rows the entries, if they are known
   */
  #folder(directory, path, name, rows = []) {
    const inside = el("ul", { role: "group", hidden: true }, ...rows);
    const sign = el("span", { class: "ba-sign", "aria-hidden": "true" }, "▸");
    const toggle = async () => {
      const isOpen = inside.hidden;
      inside.hidden = !isOpen;
      setText(sign, isOpen ? "▾" : "▸");
      item.setAttribute("aria-expanded", String(isOpen));
      if (isOpen && !inside.childElementCount) {
        const filled = await this.#list(directory, path);
        inside.replaceChildren(...(filled.length ? filled : [el("li", { class: "ba-muted" }, "empty")]));
      }
      if (isOpen && inside.childElementCount === 1) inside.querySelector(":scope > [aria-expanded=false]")?.querySelector("button")?.click();
    };
    const button = el("button", { type: "button", class: "ba-entry", tabindex: -1, click: toggle }, sign, el("span", {}, `${nodeName(name)}/`));
    const item = el("li", { role: "treeitem", "aria-expanded": "false" }, button, inside);
    return item;
  }

  /**
   * The entries of a folder; none of one that is not there.
   * @param {string} directory
   * @param {string} path
   */
  async #list(directory, path) {
    const { content } = await this.session.request({ kind: "list", directory, path });
    if (content.missing) return [];
    if (content.text) return [el("li", { class: "ba-muted" }, content.text)];
    const entries = /** @type {[string, string, number][]} */ (content.entries);
    const below = (/** @type {string} */ name) => (path ? `${path}/${name}` : name);
    const rows = entries.map(([name, kind, bytes]) => {
      if (kind === "directory") return this.#folder(directory, below(name), name);
      if (kind === "file") return this.#file(name, { directory, path: below(name), bytes });
      return el("li", { role: "treeitem", class: "ba-muted" }, `${name} (${kind})`); // not readable: a pipe, a device, a link that is not followed
    });
    const listing = `job.files(${[directory, path].filter(Boolean).map((text) => JSON.stringify(text)).join(", ")})`;
    if (content.more) rows.push(el("li", { class: "ba-muted" }, `… and more: ${listing} lists them`));
    return rows;
  }

  /**
   * @param {string} name
   * @param {FileEntry} file
   */
  #file(name, file) {
    const label = el("span", { class: "ba-file-name" }, nodeName(name));
    const bytes = el("span", { class: "ba-size" }, size(file.bytes));
    const button = el("button", { type: "button", class: "ba-entry", tabindex: -1, click: () => this.#look(button, file) }, label, bytes);
    return el("li", { role: "treeitem" }, button);
  }

  /**
   * @param {HTMLElement} button
   * @param {FileEntry} file
   */
  async #look(button, file) {
    this.tree.querySelector("[aria-current]")?.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    this.turn += 1;
    const turn = this.turn;
    const kind = imageType(file.path, file.bytes);
    const body = el("div", { class: "ba-body" }, "Reading …");
    this.preview.replaceChildren(this.#head(file), body);
    const bytes = await this.#read(file, previewSize(file.path, file.bytes), () => turn === this.turn);
    if (turn !== this.turn) return;
    body.replaceChildren(...(kind ? [this.#image(bytes, kind, file.path)] : textPreview(bytes, file.path, file.bytes)));
  }

  /** @param {FileEntry} file */
  #head(file) {
    const status = el("span", { class: "ba-muted" }, size(file.bytes));
    const isOwn = file.directory === "stdouterr" ? "" : `, directory_id="${file.directory}"`;
    const command = `job.download("${file.path}"${isOwn})`;
    const button = el("button", { type: "button", class: "ba-button ba-small" }, "Download");
    button.disabled = file.bytes > MOST_DOWNLOAD;
    button.title = button.disabled ? `Too large for the page: use ${command}` : command;
    if (button.disabled) setText(status, `${size(file.bytes)}: use ${command}`);
    button.addEventListener("click", async () => {
      button.disabled = true;
      const bytes = await this.#read(file, file.bytes, (done) => {
        setText(status, `${size(done)} of ${size(file.bytes)}`);
        return this.element.isConnected;
      });
      setText(status, size(bytes.length));
      button.disabled = false;
      saveFile(new Blob([/** @type {BlobPart} */ (bytes)]), file.path.split("/").pop() ?? MAIN_LOG);
    });
    return el("div", { class: "ba-file-head" }, el("span", { class: "ba-label", title: file.path }, nodeName(file.path)), status, button);
  }

  /**
   * @param {Uint8Array} bytes
   * @param {string} kind
   * @param {string} path
   */
  #image(bytes, kind, path) {
    URL.revokeObjectURL(this.address);
    this.address = URL.createObjectURL(new Blob([/** @type {BlobPart} */ (bytes)], { type: kind }));
    return el("img", { src: this.address, alt: path });
  }

  /**
   * Reads the first `limit` bytes of a file while `goesOn` returns true.
   * @param {FileEntry} file
   * @param {number} limit
   * @param {(done: number) => boolean} goesOn
   */
  async #read(file, limit, goesOn) {
    /** @type {Uint8Array[]} */
    const parts = [];
    let done = 0;
    while (done < limit && goesOn(done)) {
      const range = { offset: done, limit: Math.min(READ_BYTES, limit - done) };
      const { buffers } = await this.session.request({ kind: "read", file: file.path, directory: file.directory, ...range });
      const bytes = bytesOf(buffers[0]).slice();
      if (!bytes.length) break;
      parts.push(bytes);
      done += bytes.length;
    }
    return new Uint8Array(await new Blob(/** @type {BlobPart[]} */ (parts)).arrayBuffer());
  }

  /** @param {Element} within */
  #button(within) {
    return /** @type {HTMLElement | null} */ (within.querySelector(".ba-entry"));
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const all = /** @type {HTMLElement[]} */ ([...this.tree.querySelectorAll(".ba-entry")]).filter((b) => b.offsetParent !== null);
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const expanded = all[at]?.parentElement?.getAttribute("aria-expanded");
    if (way) {
      const next = all[Math.max(0, Math.min(all.length - 1, at + way))];
      all.forEach((button) => (button.tabIndex = button === next ? 0 : -1));
      next?.focus();
    } else if ((event.key === "ArrowRight" && expanded === "false") || (event.key === "ArrowLeft" && expanded === "true")) {
      all[at]?.click();
    } else return;
    event.preventDefault();
  }
}

const MAX_TEXT_BYTES = 1 << 16;
const MAX_JSON_BYTES = 1 << 18;
const MAX_WHOLE_BYTES = 4 << 20; // of an image or a notebook
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
  return bytes <= MAX_WHOLE_BYTES ? IMAGES[ending(path)] ?? "" : "";
}

/**
 * How many bytes of a file its preview needs.
 * @param {string} path
 * @param {number} bytes
 */
export function previewSize(path, bytes) {
  if (imageType(path, bytes) || (ending(path) === "ipynb" && bytes <= MAX_WHOLE_BYTES)) return bytes;
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
  const cells = ending(path) === "ipynb" && cellsOf(text);
  if (cells) return [notebookPreview(cells)];
  const separator = SEPARATORS[ending(path)];
  if (separator) return [table(rows(text, separator, bytes.length < total)), more(total - bytes.length)];
  const shown = (ending(path) === "json" && bytes.length === total && indented(text)) || text;
  return [el("pre", {}, shown.split("\n").map(plain).join("\n")), more(total - bytes.length)];
}

/** @param {number} bytes */
function more(bytes) {
  return bytes > 0 ? el("div", { class: "ba-muted" }, `… ${size(bytes)} more`) : el("span");
}

/** The same JSON with a line for each value; empty for a text that is not JSON. @param {string} text */
function indented(text) {
  try {
    const value = JSON.parse(text);
    return /\d{16}/.test(text) ? "" : JSON.stringify(value, null, 2); // integers beyond 2^53 are shown as they are written
  } catch {
    return "";
  }
}

/**
 * The cells of the first rows, also quoted ones with line breaks; a last row that is cut off is left out.
 * @param {string} text
 * @param {string} separator
 * @param {boolean} isCut
 */
export function rows(text, separator, isCut) {
  /** @type {string[][]} */
  const rows = [];
  const cell = new RegExp(`("(?:[^"]|"")*"|[^${separator}\\r\\n]*)(${separator}|\\r?\\n|\\r|$)`, "y");
  /** @type {string[]} */
  let row = [];
  while (cell.lastIndex < text.length && rows.length < MAX_ROWS) {
    const match = cell.exec(text);
    if (!match) break; // text behind a closing quote
    const [, written, end] = match;
    row.push(written?.startsWith('"') ? written.slice(1, -1).replaceAll('""', '"') : (written ?? ""));
    if (end === separator) continue;
    if (end || !isCut) rows.push(row);
    row = [];
  }
  return row.length && !isCut ? [...rows, [...row, ""]] : rows;
}

/** @param {string[][]} rows */
function table(rows) {
  const [header = [], ...others] = rows;
  const line = (/** @type {"th" | "td"} */ tag, /** @type {string[]} */ cells) =>
    el("tr", {}, ...cells.slice(0, MAX_COLUMNS).map((text) => el(tag, tag === "th" ? { scope: "col" } : {}, plain(text))));
  return el("table", { class: "ba-cells" }, el("thead", {}, line("th", header)), el("tbody", {}, ...others.map((cells) => line("td", cells))));
}

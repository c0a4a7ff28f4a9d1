// Folds of a log: one or more consecutive lines that log() wrote are one row until the user opens it.

import { el, setText } from "../core/dom.js";
import { counted } from "../core/format.js";
import { isGap } from "./log_rows.js";

/** @typedef {import("./log_rows.js").Fold} Fold */
/** @typedef {import("./log_rows.js").Line} Line */
/** @typedef {import("./log_rows.js").Row} Row */
/** @typedef {import("./log_rows.js").ShownRow} ShownRow */

const ABOVE = 0.5; // bytes by which a fold starts before its first line, so that its row is above it

export class LogFolds {
  constructor() {
    /** @type {Map<number, Fold>} */
    this.folds = new Map(); // by offset; kept, since the elements of rows are found by their objects
    /** @type {Set<number>} */
    this.opened = new Set(); // offsets, at least one in each open fold
    this.version = 0;
  }

  /** The rows to show. @type {(rows: Row[]) => ShownRow[]} */
  rowsOf(rows) {
    /** @type {ShownRow[]} */
    const visible = [];
    for (let from = 0; from < rows.length; ) {
      let to = from; // after the last of consecutive records
      while (to < rows.length && isRecord(/** @type {Row} */ (rows[to]))) to += 1;
      if (to === from) {
        visible.push(/** @type {Row} */ (rows[from]));
        from += 1;
        continue;
      }
      const fold = this.#fold(rows, from, to);
      visible.push(fold);
      if (fold.isUnfolded) for (let i = from; i < to; i += 1) visible.push(/** @type {Row} */ (rows[i]));
      from = to;
    }
    return visible;
  }

  /** Opens or closes a fold. @param {Fold} fold */
  toggle(fold) {
    const inside = [...this.opened].filter((offset) => isWithin(offset, fold));
    inside.forEach((offset) => this.opened.delete(offset));
    if (!inside.length) this.opened.add(Math.ceil(fold.start));
    this.version += 1;
  }

  /** Opens the fold of the line at an offset, if it is in one. @param {number} offset */
  open(offset) {
    this.opened.add(offset);
    this.version += 1;
  }

  /** @type {(rows: Row[], from: number, to: number) => Fold} */
  #fold(rows, from, to) {
    const [first, last] = [/** @type {Line} */ (rows[from]), /** @type {Line} */ (rows[to - 1])];
    const start = first.start - ABOVE;
    const now = { start, end: last.end, count: to - from, words: stepsOf(/** @type {Line[]} */ (rows), from, to) };
    const fold = Object.assign(this.folds.get(start) ?? { isUnfolded: false }, now, { isFold: /** @type {const} */ (true) });
    fold.isUnfolded = [...this.opened].some((offset) => isWithin(offset, fold));
    this.folds.set(start, fold);
    return fold;
  }
}

/** The element of a fold. @param {Fold} fold */
export function foldElement(fold) {
  const element = el("div", { class: "ba-row ba-fold-row", "data-start": fold.start }, el("button", { type: "button", class: "ba-fold" }));
  updateFold(element, fold);
  return element;
}

/**
 * Updates the element of a fold that has grown or was opened.
 * @param {HTMLElement} element
 * @param {Fold} fold
 */
export function updateFold(element, fold) {
  const button = /** @type {HTMLElement} */ (element.firstElementChild);
  button.setAttribute("aria-expanded", String(fold.isUnfolded));
  setText(button, `${fold.isUnfolded ? "▾" : "▸"} ${counted(fold.count, "log() record")}${fold.words}`);
}

/** @param {Row} row */
function isRecord(row) {
  return !isGap(row) && "isRecord" in row;
}

/** @type {(offset: number, fold: {start: number, end: number}) => boolean} */
function isWithin(offset, { start, end }) {
  return start <= offset && offset < end;
}

/**
 * The lowest and the highest step of records, of whatever ranks: `, step 10 to 500`.
 * @param {Line[]} rows
 * @param {number} from
 * @param {number} to
 */
function stepsOf(rows, from, to) {
  const name = rows[from]?.position?.name;
  let [low, high] = [Infinity, -Infinity];
  for (let i = from; i < to; i += 1) {
    const position = rows[i]?.position;
    if (!position || position.name !== name) return "";
    low = Math.min(low, position.at);
    high = Math.max(high, position.at);
  }
  return low === high ? `, ${name} ${low}` : `, ${name} ${low} to ${high}`;
}

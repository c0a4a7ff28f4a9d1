// The vertical positions of a log's rows: one line each or, wrapped, as many as their text needs.

import { isGap } from "./log_document.js";
import { plain } from "./log_text.js";

/** @typedef {import("./log_document.js").Row} Row */

export const ROW_PX = 18;
const TAB = 8;

/** Rows of one line each. */
export class FlatLayout {
  /** @param {Row[]} rows */
  constructor(rows) {
    this.rows = rows;
  }

  get height() {
    return this.rows.length * ROW_PX;
  }

  /** @param {number} index */
  topOf(index) {
    return index * ROW_PX;
  }

  /** @param {number} pixels */
  indexAt(pixels) {
    return Math.max(0, Math.min(this.rows.length - 1, Math.floor(pixels / ROW_PX)));
  }
}

/** Wrapped rows, estimated from the length of their text unless measured. */
export class WrappedLayout {
  /**
   * @param {Row[]} rows
   * @param {number} columns characters per line
   * @param {WeakMap<Row, number>} known measured heights
   */
  constructor(rows, columns, known) {
    this.rows = rows;
    this.tops = new Float64Array(rows.length + 1);
    rows.forEach((row, i) => {
      const height = known.get(row) ?? ROW_PX * linesOf(row, columns);
      this.tops[i + 1] = Number(this.tops[i]) + height;
    });
  }

  get height() {
    return Number(this.tops[this.rows.length]);
  }

  /** @param {number} index */
  topOf(index) {
    return Number(this.tops[Math.max(0, Math.min(index, this.rows.length))]);
  }

  /** @param {number} pixels */
  indexAt(pixels) {
    let [low, high] = [0, Math.max(0, this.rows.length - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (Number(this.tops[middle]) <= pixels) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/**
 * @param {Row} row
 * @param {number} columns
 */
function linesOf(row, columns) {
  return isGap(row) ? 1 : Math.max(1, Math.ceil(width(plain(row.text)) / Math.max(1, columns)));
}

/**
 * The width of a text in characters, with tabs expanded.
 * @param {string} text
 */
export function width(text) {
  if (!text.includes("\t")) return text.length;
  let at = 0;
  for (const sign of text) at = sign === "\t" ? (Math.floor(at / TAB) + 1) * TAB : at + 1;
  return at;
}

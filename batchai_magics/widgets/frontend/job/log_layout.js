// The layout of a log: the vertical positions of its rows, one line each or as many as their text needs, and
// the box that measures them.

import { el } from "../core/dom.js";
import { lastIndexWhere } from "../core/format.js";
import { isFold, isGap } from "./log_rows.js";
import { plain } from "./log_text.js";

/** @typedef {import("./log_document.js").Gap} Gap */
/** @typedef {import("./log_rows.js").ShownRow} Row */

export const ROW_PX = 18;
const TAB = 8;
const ROW_PADDING_PX = 16;
const CHARACTER_PX = 8; // width, if it cannot be measured

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
    return Math.max(0, lastIndexWhere(this.rows.length, (i) => Number(this.tops[i]) <= pixels));
  }
}

/**
 * @param {Row} row
 * @param {number} columns
 */
function linesOf(row, columns) {
  return isGap(row) || isFold(row) ? 1 : Math.max(1, Math.ceil(width(plain(row.text)) / Math.max(1, columns)));
}

/** The width of a text in characters, with tabs expanded. @param {string} text */
export function width(text) {
  if (!text.includes("\t")) return text.length;
  let at = 0;
  for (const sign of text) at = sign === "\t" ? (Math.floor(at / TAB) + 1) * TAB : at + 1;
  return at;
}

/** The layout in the box, updated with the rows, the width of the box and measured heights. */
export class LogBox {
  /**
   * @param {HTMLElement} box
   * @param {HTMLElement} sizer child of the box with the height of all rows
   */
  constructor(box, sizer) {
    this.box = box;
    this.sizer = sizer;
    this.isWrapped = false;
    /** @type {WeakMap<Row, number>} */
    this.heights = new WeakMap(); // measured heights that differ from the estimate
    this.columns = 0;
    /** @type {FlatLayout | WrappedLayout} */
    this.layout = new FlatLayout([]);
  }

  /** Updates the layout for these rows. @param {Row[]} rows */
  lay(rows) {
    if (!this.isWrapped) {
      this.layout = new FlatLayout(rows);
      return;
    }
    const columns = this.#columnsInSight();
    const { layout } = this;
    if (columns !== this.columns) this.heights = new WeakMap();
    else if (layout instanceof WrappedLayout && layout.rows === rows && layout.tops.length === rows.length + 1) return;
    this.columns = columns;
    this.layout = new WrappedLayout(rows, columns, this.heights);
  }

  /**
   * Measures rows; those whose height differs from the estimate (wide characters) are laid out again.
   * @param {Map<Row, HTMLElement>} elements
   * @param {Set<Row>} rows
   * @param {number} first index of the first row
   * @returns {boolean} whether there are any
   */
  measure(elements, rows, first) {
    let index = first;
    let isOff = false;
    for (const row of rows) {
      const height = elements.get(row)?.offsetHeight ?? ROW_PX;
      if (height !== this.layout.topOf(index + 1) - this.layout.topOf(index)) {
        this.heights.set(row, height);
        isOff = true;
      }
      index += 1;
    }
    if (isOff) this.layout = new FlatLayout([]);
    return isOff;
  }

  /**
   * The nearest gap that is visible, or will be after scrolling by a page.
   * @param {Row[]} rows
   * @param {boolean} isGoingUp
   * @returns {Gap | null}
   */
  gapInSight(rows, isGoingUp) {
    const rowsInSight = Math.ceil(this.box.clientHeight / ROW_PX);
    const top = this.layout.indexAt(this.box.scrollTop);
    const first = isGoingUp ? Math.max(0, top - rowsInSight) : top;
    const last = top + rowsInSight * (isGoingUp ? 1 : 2);
    const inSight = rows.slice(first, last + 1).filter(isGap);
    return (isGoingUp ? inSight[inSight.length - 1] : inSight[0]) ?? null;
  }

  /** The number of characters per line. */
  #columnsInSight() {
    const probe = el("span", { class: "ba-probe" }, "0".repeat(100));
    this.sizer.append(probe);
    const character = probe.getBoundingClientRect().width / 100;
    probe.remove();
    return Math.floor((this.box.clientWidth - ROW_PADDING_PX) / (character || CHARACTER_PX));
  }
}

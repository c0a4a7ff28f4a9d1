// Where the rows of a log are in its box: kept up to date with the rows, the width of the box and what was measured.

import { el } from "../../core/dom.js";
import { isGap } from "./document.js";
import { FlatLayout, ROW_PX, WrappedLayout } from "./layout.js";

/** @typedef {import("./document.js").Gap} Gap */
/** @typedef {import("./document.js").Row} Row */

const ROW_PADDING_PX = 16;
const SIGN_PX = 8; // wide, where it cannot be measured

export class BoxLayout {
  /**
   * @param {HTMLElement} box
   * @param {HTMLElement} sizer in the box, as high as all rows together
   */
  constructor(box, sizer) {
    this.box = box;
    this.sizer = sizer;
    this.isWrapped = false;
    /** @type {WeakMap<Row, number>} */
    this.heights = new WeakMap(); // of wrapped rows whose height is not what it was taken for
    this.columns = 0;
    /** @type {FlatLayout | WrappedLayout} */
    this.layout = new FlatLayout([]);
  }

  /**
   * Brings the layout up to date with the rows.
   * @param {Row[]} rows
   */
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
   * Notes which rows are not as high as they were taken for (signs of other widths); they are then laid out anew.
   * @param {Map<Row, HTMLElement>} elements
   * @param {Set<Row>} rows
   * @param {number} first the number of the first of them
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
   * The nearest gap that is in sight, or will be with the next page that the reader turns.
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

  /** How many signs fit beside each other. */
  #columnsInSight() {
    const probe = el("span", { class: "ba-probe" }, "0".repeat(100));
    this.sizer.append(probe);
    const sign = probe.getBoundingClientRect().width / 100;
    probe.remove();
    return Math.floor((this.box.clientWidth - ROW_PADDING_PX) / (sign || SIGN_PX));
  }
}

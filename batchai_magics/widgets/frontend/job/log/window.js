// A window on a log document: only the rows in sight are in the page, and they keep their nodes.

import { el, oncePerFrame } from "../../core/dom.js";
import { isGap } from "./document.js";
import { FlatLayout, ROW_PX, WrappedLayout } from "./layout.js";
import { rowElement } from "./row_element.js";

/** @typedef {import("./document.js").LogDocument} LogDocument */
/** @typedef {import("./document.js").Row} Row */
/** @typedef {import("./document.js").Gap} Gap */

const OVERSCAN_ROWS = 12;
const MAX_ROWS = 120_000; // kept in the page; the far ones are read again when they come in sight
const MAX_WRAPPED_ROWS = 20_000; // the height of each of them has to be known
const ROW_PADDING_PX = 16;
const REST_PX = 4; // below the last row
const REST_MS = 120; // how long the log has to stand still before a gap in sight is read

export class LogView {
  /**
   * @param {LogDocument} log
   * @param {{wantsBytes: (gap: Gap, isFromEnd: boolean) => void, moved: () => void}} on
   */
  constructor(log, on) {
    this.log = log;
    this.on = on;
    this.isFollowing = true;
    this.unread = 0;
    /** @type {((text: string) => [number, number][]) | null} */
    this.find = null;
    this.hits = /** @type {Set<number>} */ (new Set()); // offsets of lines that match as a whole
    /** @type {number | null} */
    this.current = null; // the offset of the line that the search stands on
    /** @type {Map<Row, HTMLElement>} */
    this.shown = new Map();
    this.expectedTop = 0;
    this.knownHeight = 0;
    this.isMoving = false; // the next paint goes somewhere else
    this.isGoingUp = true;
    this.anchor = { offset: 0, pixels: 0 };
    this.isWrapped = false;
    /** @type {WeakMap<Row, number>} */
    this.heights = new WeakMap(); // of wrapped rows whose height is not what it was taken for
    /** @type {FlatLayout | WrappedLayout} */
    this.layout = new FlatLayout([]);
    this.columns = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.resting = undefined;
    this.sizer = el("div", { class: "ba-sizer" });
    this.box = el(
      "div",
      {
        class: "ba-log",
        tabindex: 0,
        role: "log",
        "aria-live": "off",
        "aria-label": "Job output",
        scroll: () => this.#onScroll(),
        keydown: (/** @type {KeyboardEvent} */ event) => this.#onKey(event),
      },
      this.sizer,
    );
    this.frame = oncePerFrame(() => this.#paint());
    this.resizing = new ResizeObserver(() => this.update());
    this.resizing.observe(this.box);
  }

  /**
   * Shows another document, at its end.
   * @param {LogDocument} log
   */
  show(log) {
    this.log = log;
    this.redraw();
    this.follow();
  }

  /**
   * Draws what is new, in the next frame.
   * @param {number} [added] how many rows came at the end
   */
  update(added = 0) {
    if (!this.isFollowing) this.unread += added;
    this.log.trim(this.isWrapped ? MAX_WRAPPED_ROWS : MAX_ROWS, this.isFollowing ? this.log.end : this.anchor.offset);
    this.frame.ask();
  }

  /** Draws every row anew: what is marked has changed. */
  redraw() {
    for (const element of this.shown.values()) element.remove();
    this.shown.clear();
    this.frame.ask();
  }

  /** Goes to the end and stays there. */
  follow() {
    this.isFollowing = true;
    this.isMoving = true;
    this.unread = 0;
    this.isGoingUp = true;
    this.on.moved();
    this.frame.ask();
  }

  /** The box was put somewhere else, where it has lost its place: that is no move of the reader's. */
  moved() {
    this.knownHeight = 0;
    this.frame.ask();
  }

  /** Goes to the first line. */
  toStart() {
    this.isGoingUp = false;
    this.isMoving = true;
    this.#leave(0);
  }

  /**
   * Brings a line to the middle and marks it.
   * @param {number} offset
   */
  reveal(offset) {
    this.current = offset;
    this.redraw();
    this.#lay();
    const middle = this.layout.topOf(this.log.indexAt(offset)) - this.box.clientHeight / 2 + ROW_PX / 2;
    this.isMoving = true;
    this.#leave(Math.max(0, middle));
  }

  /**
   * Breaks long lines, or lets them run on.
   * @param {boolean} isWrapped
   */
  wrap(isWrapped) {
    this.isWrapped = isWrapped;
    this.isMoving = true;
    this.anchor = { ...this.anchor, pixels: 0 };
    this.box.classList.toggle("ba-wrapped", isWrapped);
    this.redraw();
    this.update();
  }

  /** Ends what the view has running. */
  stop() {
    clearTimeout(this.resting);
    this.frame.stop();
    this.resizing.disconnect();
  }

  /** @param {number} top */
  #leave(top) {
    this.isFollowing = false;
    this.#lay();
    const index = this.layout.indexAt(top);
    this.anchor = { offset: this.log.rows[index]?.start ?? 0, pixels: top - this.layout.topOf(index) };
    this.on.moved();
    this.frame.ask();
  }

  #onScroll() {
    this.#noticeScroll();
    this.frame.ask();
  }

  /** Takes over where the reader has scrolled to; what the view itself has set is no news. */
  #noticeScroll() {
    const top = this.box.scrollTop;
    // A box of another height was scrolled by the browser; a move that is still to come counts more.
    const isOwn = this.isMoving || this.box.clientHeight !== this.knownHeight;
    if (isOwn || Math.abs(top - this.expectedTop) < 2) return;
    this.isGoingUp = top < this.expectedTop;
    this.expectedTop = top;
    const isAtEnd = this.box.scrollHeight - top - this.box.clientHeight < ROW_PX * 1.5;
    if (isAtEnd && !this.isGoingUp) this.follow();
    else this.#leave(top);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.key === "Home") this.toStart();
    else if (event.key === "End") this.follow();
    else return;
    event.preventDefault();
  }

  #paint() {
    const { rows } = this.log;
    const height = this.box.clientHeight;
    if (!height) {
      this.knownHeight = 0; // out of the page: what it comes back with is no move of the reader's
      return;
    }
    this.#noticeScroll(); // its event may still be on the way
    this.#lay();
    const { layout } = this;
    this.sizer.style.height = `${layout.height + REST_PX}px`;
    this.#place(layout.height + REST_PX - height);
    const first = Math.max(0, layout.indexAt(this.box.scrollTop) - OVERSCAN_ROWS);
    const last = Math.min(rows.length, first + Math.ceil(height / ROW_PX) + 2 * OVERSCAN_ROWS);
    const wanted = new Set(rows.slice(first, last));
    for (const [row, element] of this.shown) {
      if (wanted.has(row)) continue;
      element.remove();
      this.shown.delete(row);
    }
    let index = first;
    for (const row of wanted) {
      let element = this.shown.get(row);
      if (!element) {
        element = rowElement(row, this.find, row.start === this.current);
        element.classList.toggle("ba-found", this.hits.has(row.start));
        this.shown.set(row, element);
        this.sizer.append(element);
      }
      element.style.top = `${layout.topOf(index)}px`;
      index += 1;
    }
    if (this.isWrapped) this.#measure(wanted, first);
    this.#fillWhenAtRest();
  }

  /** Brings the layout up to date with the rows. */
  #lay() {
    const { rows } = this.log;
    if (!this.isWrapped) {
      this.layout = new FlatLayout(rows);
      return;
    }
    const columns = this.#columnsInSight();
    if (columns !== this.columns) this.heights = new WeakMap();
    else if (this.layout instanceof WrappedLayout && this.layout.rows === rows && this.layout.tops.length === rows.length + 1) return;
    this.columns = columns;
    this.layout = new WrappedLayout(rows, columns, this.heights);
  }

  /** How many signs fit beside each other. */
  #columnsInSight() {
    const probe = el("span", { class: "ba-probe" }, "0".repeat(100));
    this.sizer.append(probe);
    const sign = probe.getBoundingClientRect().width / 100;
    probe.remove();
    return Math.floor((this.box.clientWidth - ROW_PADDING_PX) / (sign || 8));
  }

  /**
   * Notes which rows are not as high as they were taken for (signs of other widths), and lays them out anew.
   * @param {Set<Row>} rows
   * @param {number} first
   */
  #measure(rows, first) {
    let index = first;
    let isOff = false;
    for (const row of rows) {
      const height = this.shown.get(row)?.offsetHeight ?? ROW_PX;
      if (height !== this.layout.topOf(index + 1) - this.layout.topOf(index)) {
        this.heights.set(row, height);
        isOff = true;
      }
      index += 1;
    }
    if (!isOff) return;
    this.layout = new FlatLayout([]);
    this.frame.ask();
  }

  /**
   * Keeps what the reader looks at where it is, however the rows around it changed.
   * @param {number} bottom
   */
  #place(bottom) {
    const index = this.log.indexAt(this.anchor.offset);
    const top = this.isFollowing ? bottom : this.layout.topOf(index) + this.anchor.pixels;
    const wanted = Math.max(0, Math.min(top, bottom));
    if (Math.abs(this.box.scrollTop - wanted) >= 1) this.box.scrollTop = wanted;
    this.expectedTop = this.box.scrollTop;
    this.knownHeight = this.box.clientHeight;
    this.isMoving = false;
  }

  #fillWhenAtRest() {
    clearTimeout(this.resting);
    const gap = this.#gapInSight();
    if (!gap) return;
    const ask = () => {
      const inSight = this.#gapInSight();
      if (inSight) this.on.wantsBytes(inSight, this.isGoingUp);
    };
    this.resting = setTimeout(ask, this.isFollowing ? REST_MS : 0);
  }

  /**
   * The nearest gap that is in sight, or will be with the next page that the reader turns.
   * @returns {Gap | null}
   */
  #gapInSight() {
    const rowsInSight = Math.ceil(this.box.clientHeight / ROW_PX);
    const top = this.layout.indexAt(this.box.scrollTop);
    const first = this.isGoingUp ? Math.max(0, top - rowsInSight) : top;
    const last = top + rowsInSight * (this.isGoingUp ? 1 : 2);
    const inSight = this.log.rows.slice(first, last + 1).filter(isGap);
    return (this.isGoingUp ? inSight[inSight.length - 1] : inSight[0]) ?? null;
  }
}

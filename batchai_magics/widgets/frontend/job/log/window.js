// A window on a log document: only the rows in sight are in the page, and they keep their nodes.

import { el, oncePerFrame } from "../../core/dom.js";
import { BoxLayout } from "./box_layout.js";
import { isGap } from "./document.js";
import { ROW_PX } from "./layout.js";
import { rowElement } from "./row_element.js";

/** @typedef {import("./document.js").LogDocument} LogDocument */
/** @typedef {import("./document.js").Row} Row */
/** @typedef {import("./document.js").Gap} Gap */

const OVERSCAN_ROWS = 12;
const MAX_ROWS = 120_000; // kept in the page; the far ones are read again when they come in sight
const MAX_WRAPPED_ROWS = 20_000; // the height of each of them has to be known
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
    this.boxLayout = new BoxLayout(this.box, this.sizer);
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
    this.log.trim(this.boxLayout.isWrapped ? MAX_WRAPPED_ROWS : MAX_ROWS, this.isFollowing ? this.log.end : this.anchor.offset);
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
    this.boxLayout.lay(this.log.shown);
    const middle = this.boxLayout.layout.topOf(this.log.indexAt(offset)) - this.box.clientHeight / 2 + ROW_PX / 2;
    this.isMoving = true;
    this.#leave(Math.max(0, middle));
  }

  /**
   * Breaks long lines, or lets them run on.
   * @param {boolean} isWrapped
   */
  wrap(isWrapped) {
    this.boxLayout.isWrapped = isWrapped;
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
    this.boxLayout.lay(this.log.shown);
    const index = this.boxLayout.layout.indexAt(top);
    this.anchor = { offset: this.log.rows[index]?.start ?? 0, pixels: top - this.boxLayout.layout.topOf(index) };
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
    const rows = this.log.shown;
    const height = this.box.clientHeight;
    if (!height) {
      this.knownHeight = 0; // out of the page: what it comes back with is no move of the reader's
      return;
    }
    this.#noticeScroll(); // its event may still be on the way
    this.boxLayout.lay(rows);
    const { layout } = this.boxLayout;
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
    if (this.boxLayout.isWrapped && this.boxLayout.measure(this.shown, wanted, first)) this.frame.ask();
    this.#fillWhenAtRest();
  }

  /**
   * Keeps what the reader looks at where it is, however the rows around it changed.
   * @param {number} bottom
   */
  #place(bottom) {
    const index = this.log.indexAt(this.anchor.offset);
    const top = this.isFollowing ? bottom : this.boxLayout.layout.topOf(index) + this.anchor.pixels;
    const wanted = Math.max(0, Math.min(top, bottom));
    if (Math.abs(this.box.scrollTop - wanted) >= 1) this.box.scrollTop = wanted;
    this.expectedTop = this.box.scrollTop;
    this.knownHeight = this.box.clientHeight;
    this.isMoving = false;
  }

  #fillWhenAtRest() {
    clearTimeout(this.resting);
    const gap = this.boxLayout.gapInSight(this.log.rows, this.isGoingUp);
    if (!gap) return;
    const ask = () => {
      const inSight = this.boxLayout.gapInSight(this.log.rows, this.isGoingUp);
      if (inSight) this.on.wantsBytes(inSight, this.isGoingUp);
    };
    this.resting = setTimeout(ask, this.isFollowing ? REST_MS : 0);
  }
}

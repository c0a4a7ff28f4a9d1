// A virtual list of a log's rows: only visible rows are in the DOM, and they keep their elements.

import { el, oncePerFrame } from "../core/dom.js";
import { updateFold } from "./log_folds.js";
import { LogBox, ROW_PX } from "./log_layout.js";
import { isFold } from "./log_rows.js";
import { rowElement } from "./log_text.js";

/** @typedef {import("./log_document.js").LogDocument} LogDocument */
/** @typedef {import("./log_rows.js").ShownRow} Row */
/** @typedef {import("./log_document.js").Gap} Gap */

const OVERSCAN_ROWS = 12;
const MAX_ROWS = 120_000; // kept in memory; distant ones are loaded again when they become visible
const MAX_WRAPPED_ROWS = 20_000; // the height of each must be known
const PADDING_PX = 4; // below the last row
const REST_MS = 120; // without scrolling, before a visible gap is loaded

export class LogWindow {
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
    this.current = null; // offset of the current match
    /** @type {Map<Row, HTMLElement>} */
    this.shown = new Map();
    this.expectedTop = 0;
    this.knownHeight = 0;
    this.isMoving = false; // the next paint changes the scroll position
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
        click: (/** @type {MouseEvent} */ event) => this.#onClick(event),
        keydown: (/** @type {KeyboardEvent} */ event) => this.#onKey(event),
      },
      this.sizer,
    );
    this.boxLayout = new LogBox(this.box, this.sizer);
    this.frame = oncePerFrame(() => this.#paint());
    this.resizing = new ResizeObserver(() => this.update());
    this.resizing.observe(this.box);
  }

  /** Shows another document from its end. @param {LogDocument} log */
  show(log) {
    this.log = log;
    this.redraw();
    this.follow();
  }

  /** Draws new rows in the next frame. @param {number} [added] number of rows appended */
  update(added = 0) {
    if (!this.isFollowing) this.unread += added;
    this.log.trim(this.boxLayout.isWrapped ? MAX_WRAPPED_ROWS : MAX_ROWS, this.isFollowing ? this.log.end : this.anchor.offset);
    this.frame.ask();
  }

  /** Draws every row again: highlights have changed. */
  redraw() {
    for (const element of this.shown.values()) element.remove();
    this.shown.clear();
    this.frame.ask();
  }

  /** Scrolls to the end and follows it. */
  follow() {
    this.isFollowing = true;
    this.isMoving = true;
    this.unread = 0;
    this.isGoingUp = true;
    this.on.moved();
    this.frame.ask();
  }

  /** Called after the box was moved in the DOM and lost its scroll position, which is not the user's scrolling. */
  moved() {
    this.knownHeight = 0;
    this.frame.ask();
  }

  /** Scrolls to the first line. */
  toStart() {
    this.isGoingUp = false;
    this.isMoving = true;
    this.#leave(0);
  }

  /** Scrolls a line to the middle and highlights it. @param {number} offset */
  reveal(offset) {
    this.current = offset;
    if (this.log.hasRecords) this.log.folds.open(offset);
    this.redraw();
    const rows = this.log.shown;
    this.boxLayout.lay(rows);
    const middle = this.boxLayout.layout.topOf(this.log.indexAt(offset, rows)) - this.box.clientHeight / 2 + ROW_PX / 2;
    this.isMoving = true;
    this.#leave(Math.max(0, middle));
  }

  /** Turns line wrapping on or off. @param {boolean} isWrapped */
  wrap(isWrapped) {
    this.boxLayout.isWrapped = isWrapped;
    this.isMoving = true;
    this.anchor = { ...this.anchor, pixels: 0 };
    this.box.classList.toggle("ba-wrapped", isWrapped);
    this.redraw();
    this.update();
  }

  /** Stops timers and observers. */
  stop() {
    clearTimeout(this.resting);
    this.frame.stop();
    this.resizing.disconnect();
  }

  /** @param {number} top */
  #leave(top) {
    this.isFollowing = false;
    const rows = this.log.shown;
    this.boxLayout.lay(rows);
    const index = this.boxLayout.layout.indexAt(top);
    this.anchor = { offset: rows[index]?.start ?? 0, pixels: top - this.boxLayout.layout.topOf(index) };
    this.on.moved();
    this.frame.ask();
  }

  #onScroll() {
    this.#noticeScroll();
    this.frame.ask();
  }

  /** Detects scrolling by the user, as opposed to the window's own. */
  #noticeScroll() {
    const top = this.box.scrollTop;
    // After a resize the browser has scrolled; a pending move takes precedence.
    const isOwn = this.isMoving || this.box.clientHeight !== this.knownHeight;
    if (isOwn || Math.abs(top - this.expectedTop) < 2) return;
    this.isGoingUp = top < this.expectedTop;
    this.expectedTop = top;
    const isAtEnd = this.box.scrollHeight - top - this.box.clientHeight < ROW_PX * 1.5;
    if (isAtEnd && !this.isGoingUp) this.follow();
    else this.#leave(top);
  }

  /** @param {MouseEvent} event a click, maybe by a key, on a fold: its row stays where it is */
  #onClick(event) {
    const element = /** @type {Element} */ (event.target).closest(".ba-fold-row");
    const [row] = [...this.shown].find(([, each]) => each === element) ?? [];
    if (!row || !isFold(row)) return;
    this.log.folds.toggle(row);
    this.#leave(this.box.scrollTop);
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
      this.knownHeight = 0; // not in the page: its scroll position afterwards is not the user's choice
      return;
    }
    this.#noticeScroll(); // the scroll event may still be pending
    this.boxLayout.lay(rows);
    const { layout } = this.boxLayout;
    this.sizer.style.height = `${layout.height + PADDING_PX}px`;
    const top = this.#wantedTop(layout.height + PADDING_PX - height);
    const first = Math.max(0, layout.indexAt(top) - OVERSCAN_ROWS);
    const last = Math.min(rows.length, first + Math.ceil(height / ROW_PX) + 2 * OVERSCAN_ROWS);
    const visible = new Set(rows.slice(first, last));
    for (const [row, element] of this.shown) {
      if (visible.has(row)) continue;
      element.remove();
      this.shown.delete(row);
    }
    let index = first;
    for (const row of visible) {
      let element = this.shown.get(row);
      if (!element) {
        element = rowElement(row, this.find, row.start === this.current);
        element.classList.toggle("ba-found", this.hits.has(row.start));
        this.shown.set(row, element);
        this.sizer.append(element);
      }
      if (isFold(row)) updateFold(element, row);
      element.style.top = `${layout.topOf(index)}px`;
      index += 1;
    }
    this.#place(top); // after all changes, so that the browser lays out the rows once
    if (this.boxLayout.isWrapped && this.boxLayout.measure(this.shown, visible, first)) this.frame.ask();
    this.#fillWhenAtRest();
  }

  /** The scroll position that keeps the visible rows in place while rows around them change. @param {number} bottom */
  #wantedTop(bottom) {
    const index = this.log.indexAt(this.anchor.offset, this.log.shown);
    const top = this.isFollowing ? bottom : this.boxLayout.layout.topOf(index) + this.anchor.pixels;
    return Math.max(0, Math.min(top, bottom));
  }

  /** @param {number} top */
  #place(top) {
    if (Math.abs(this.box.scrollTop - top) >= 1) this.box.scrollTop = top;
    this.expectedTop = this.box.scrollTop;
    this.knownHeight = this.box.clientHeight;
    this.isMoving = false;
  }

  #fillWhenAtRest() {
    clearTimeout(this.resting);
    const gap = this.boxLayout.gapInSight(this.log.shown, this.isGoingUp);
    if (!gap) return;
    const ask = () => {
      const inSight = this.boxLayout.gapInSight(this.log.shown, this.isGoingUp);
      if (inSight) this.on.wantsBytes(inSight, this.isGoingUp);
    };
    this.resting = setTimeout(ask, this.isFollowing ? REST_MS : 0);
  }
}

// What every chart has: a title, a legend, a box with a plot in it, zoom, and a frame in which it is drawn.

import uPlot from "uplot"; // for its types
import { el, oncePerFrame } from "../dom.js";
import { onThemeChange } from "../theme.js";
import { Legend } from "./legend.js";
import { CURSOR_POINTS } from "./style.js";

export const MOVE_SHARE = 0.02; // of the visible points, for one press of an arrow key

export class FramedChart {
  /**
   * @param {string} title
   * @param {string} syncKey charts with the same key share their cursor
   * @param {number} heightPx of the plot
   */
  constructor(title, syncKey, heightPx) {
    this.syncKey = syncKey;
    this.heightPx = heightPx;
    /** @type {uPlot | null} */
    this.plot = null;
    this.drawn = ""; // what the plot was made for
    this.isZoomed = false;
    this.isBehind = false; // something new came while it could not be drawn
    this.onReset = () => this.resetZoom(); // the reader wants to see everything again
    this.legend = new Legend(() => this.showLines());
    this.title = el("span", { class: "ba-label" }, title);
    this.reset = smallButton("Reset zoom", () => this.onReset(), { hidden: true });
    this.empty = el("div", { class: "ba-empty" });
    const keydown = (/** @type {KeyboardEvent} */ event) => this.onKey(event);
    this.box = el("div", { class: "ba-plot", tabindex: 0, role: "img", keydown }, this.empty);
    this.frame = oncePerFrame(() => this.paint());
    // The first size comes once the element is in the page: only then are its colours known.
    this.resizing = new ResizeObserver(() => this.#resize());
    this.resizing.observe(this.box);
    this.stopTheme = onThemeChange(() => this.plot?.redraw(false));
  }

  /** Draws what there is, at once. */
  draw() {}

  /** Shows the lines that the legend has not hidden. */
  showLines() {}

  /** The plot has got another size. */
  resized() {}

  /** Says in words what is under the cursor, or the latest values. */
  describe() {}

  /** @param {KeyboardEvent} _event */
  onKey(_event) {}

  /** Draws what there is, unless nobody can see it. */
  paint() {
    this.isBehind = !this.box.clientWidth; // out of sight, as a cell that was scrolled away: drawn when it comes back
    if (!this.isBehind) this.draw();
  }

  /** Shows everything again. */
  resetZoom() {
    this.isZoomed = false;
    this.reset.hidden = true;
    this.paint();
  }

  /** Ends what the chart has running. */
  stop() {
    this.frame.stop();
    this.resizing.disconnect();
    this.stopTheme();
    this.plot?.destroy();
  }

  /**
   * What the cursor does in the plot.
   * @param {boolean} canZoom
   * @returns {uPlot.Cursor}
   */
  cursor(canZoom) {
    return {
      sync: { key: this.syncKey },
      y: false,
      drag: { x: canZoom, y: false, dist: 5 },
      points: CURSOR_POINTS,
      bind: { dblclick: () => () => (this.onReset(), null) },
    };
  }

  /** @returns {uPlot.Hooks.Arrays} */
  hooks() {
    return { setCursor: [() => this.describe()], setSelect: [(plot) => this.#onSelect(plot)] };
  }

  /** @param {uPlot} plot */
  #onSelect(plot) {
    if (plot.select.width > 0) this.isZoomed = true;
    this.reset.hidden = !this.isZoomed;
  }

  #resize() {
    const width = this.box.clientWidth;
    if (!width) return;
    if (!this.plot) return this.paint();
    this.plot.setSize({ width, height: this.heightPx });
    if (this.isBehind) this.paint();
    this.resized();
  }
}

/**
 * @param {string} text
 * @param {() => void} click
 * @param {Record<string, string | boolean>} attributes
 */
export function smallButton(text, click, attributes) {
  return el("button", { type: "button", class: "ba-button ba-small", click, ...attributes }, text);
}

// The frame of every chart: title, legend, plot, zoom, and redrawing once per frame.

import uPlot from "uplot"; // for its types
import { CURSOR_POINTS, onThemeChange } from "./chart_style.js";
import { el, oncePerFrame, setText } from "./dom.js";

/** @typedef {{key: string, text: string, colour: string, isDashed?: boolean}} Entry */

class Legend {
  /** @param {(key: string) => void} toggle */
  constructor(toggle) {
    this.toggle = toggle;
    /** @type {Set<string>} */
    this.hidden = new Set();
    this.step = el("span", { class: "ba-value" });
    /** @type {Map<string, {button: HTMLElement, text: Text}>} */
    this.buttons = new Map();
    this.element = el("div", { class: "ba-readout" }, this.step);
  }

  /**
   * @param {string} step
   * @param {Entry[]} entries
   */
  show(step, entries) {
    setText(this.step, step);
    const wanted = entries.map((entry) => entry.key).join("\n");
    if (this.element.dataset.keys !== wanted) this.#make(entries, wanted);
    for (const { key, text } of entries) {
      const made = this.buttons.get(key);
      if (made && made.text.data !== text) made.text.data = text;
    }
    this.element.title = [step, ...entries.map((entry) => entry.text)].filter(Boolean).join(", ");
  }

  /** The shown values as one text. */
  get words() {
    return this.element.title;
  }

  /**
   * @param {Entry[]} entries
   * @param {string} wanted
   */
  #make(entries, wanted) {
    this.element.dataset.keys = wanted;
    this.buttons.clear();
    for (const { key, colour, isDashed } of entries) {
      const text = document.createTextNode("");
      const swatch = el("i", { class: isDashed ? "ba-swatch ba-dashed" : "ba-swatch", style: `background: ${colour ? `var(${colour})` : "var(--ba-muted)"}` });
      const button = el(
        "button",
        { type: "button", class: "ba-value", "aria-pressed": String(!this.hidden.has(key)), click: () => this.#click(key) },
        swatch,
        text,
      );
      this.buttons.set(key, { button, text });
    }
    this.element.replaceChildren(this.step, ...[...this.buttons.values()].map(({ button }) => button));
  }

  /** @param {string} key */
  #click(key) {
    if (!this.hidden.delete(key)) this.hidden.add(key);
    this.buttons.get(key)?.button.setAttribute("aria-pressed", String(!this.hidden.has(key)));
    this.toggle(key);
  }
}

export const MOVE_SHARE = 0.02; // of the visible points, per press of an arrow key

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
    this.drawn = ""; // a key of the current plot's structure
    this.isZoomed = false;
    this.isBehind = false; // new data arrived while the chart was invisible
    this.onReset = () => this.resetZoom(); // called when the user resets the zoom
    this.legend = new Legend(() => this.showLines());
    this.title = el("span", { class: "ba-label" }, title);
    this.reset = smallButton("Reset zoom", () => this.onReset(), { hidden: true });
    this.empty = el("div", { class: "ba-empty" });
    const keydown = (/** @type {KeyboardEvent} */ event) => this.onKey(event);
    this.box = el("div", { class: "ba-plot", tabindex: 0, role: "img", keydown }, this.empty);
    this.frame = oncePerFrame(() => this.paint());
    // The first resize comes when the element is in the page: only then are its colours known.
    this.resizing = new ResizeObserver(() => this.#resize());
    this.resizing.observe(this.box);
    this.stopTheme = onThemeChange(() => this.plot?.redraw(false));
  }

  /** Draws the current data immediately. */
  draw() {}

  /** Applies the legend's hidden lines. */
  showLines() {}

  /** Called after the plot was resized. */
  resized() {}

  /** Updates legend and label with the values under the cursor, or the latest ones. */
  describe() {}

  /** @param {KeyboardEvent} _event */
  onKey(_event) {}

  /** Draws the current data if the chart is visible. */
  paint() {
    this.isBehind = !this.box.clientWidth; // hidden, for example scrolled away: drawn when visible again
    if (!this.isBehind) this.draw();
  }

  /** Resets the zoom. */
  resetZoom() {
    this.isZoomed = false;
    this.reset.hidden = true;
    this.paint();
  }

  /** Stops observers and removes the plot. */
  stop() {
    this.frame.stop();
    this.resizing.disconnect();
    this.stopTheme();
    this.plot?.destroy();
  }

  /**
   * The cursor options of the plot.
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

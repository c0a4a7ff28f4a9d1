// The frame of every chart: title, legend, plot, zoom, and redrawing once per frame.

import uPlot from "uplot"; // for its types
import { readText } from "./chart_axes.js";
import { CURSOR_POINTS, onThemeChange } from "./chart_style.js";
import { chartTools } from "./chart_tools.js";
import { el, oncePerFrame, rulerOf, setText } from "./dom.js";

/** @typedef {{key: string, text: string, colour: string, isDashed?: boolean}} Entry */
/** @typedef {import("./chart_export.js").ValueTable} ValueTable */

class Legend {
  /** @param {(key: string) => void} toggle */
  constructor(toggle) {
    this.toggle = toggle;
    /** @type {Set<string>} */
    this.hidden = new Set();
    this.step = el("span", { class: "ba-value" });
    /** @type {Map<string, {button: HTMLElement, text: Text}>} */
    this.buttons = new Map();
    /** @type {Entry[]} */
    this.entries = [];
    this.element = el("div", { class: "ba-readout" }, this.step);
    /** @type {((text: string) => number) | null} */
    this.ruler = null;
  }

  /** Measures anew from now on: the font may be another one. */
  resized() {
    this.ruler = null;
  }

  /**
   * The width in pixels that these texts need on one line.
   * @param {string} step
   * @param {Entry[]} entries
   */
  widthOf(step, entries) {
    return entries.reduce((sum, { text }) => sum + VALUE_GAP_PX + this.#reserved(text, SWATCH_PX), VALUE_GAP_PX + this.#reserved(step));
  }

  /** @type {(text: string, more?: number) => number} */
  #reserved(text, more = 0) {
    this.ruler ??= rulerOf(this.element);
    return Math.ceil(this.ruler(withAllDigits(text))) + more;
  }

  /**
   * Keeps the width that the longest text so far needs, so that nothing moves.
   * @type {(element: HTMLElement, text: string, more?: number) => void}
   */
  #reserve(element, text, more) {
    const width = this.#reserved(text, more);
    if (width > parseFloat(element.style.minWidth || "0")) element.style.minWidth = `${width}px`;
  }

  /**
   * @param {string} step
   * @param {Entry[]} entries
   */
  show(step, entries) {
    this.entries = entries;
    setText(this.step, step);
    this.#reserve(this.step, step);
    const wanted = entries.map((entry) => entry.key).join("\n");
    if (this.element.dataset.keys !== wanted) this.#make(entries, wanted);
    for (const { key, text } of entries) {
      const made = this.buttons.get(key);
      if (!made || made.text.data === text) continue;
      made.text.data = text;
      this.#reserve(made.button, text, SWATCH_PX);
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

/**
 * A text whose numbers have all their digits, each as wide as any.
 * @param {string} text
 */
export function withAllDigits(text) {
  return text.replace(NUMBER, (number) => number.padEnd(DIGITS, "0")).replace(/\d/g, "0");
}

const NUMBER = /\d+\.\d*/g; // counts do not get decimals
const DIGITS = 6; // of a number, with its point
const SWATCH_PX = 11; // with its margin
const VALUE_GAP_PX = 7; // before each value
const MOVE_SHARE = 0.02; // of the visible points, per press of an arrow key
const ZOOM_FACTOR = 2; // per press of + or -

export class FramedChart {
  /**
   * @param {string} title
   * @param {string} syncKey charts with the same key share their cursor
   */
  constructor(title, syncKey) {
    this.syncKey = syncKey;
    /** @type {uPlot | null} */
    this.plot = null;
    this.drawn = ""; // a key of the current plot's structure
    this.isZoomed = false;
    this.isBehind = false; // new data arrived while the chart was invisible
    this.onReset = () => this.resetZoom(); // called when the user resets the zoom
    this.onZoom = (/** @type {{min: number, max: number}} */ range) => this.zoomTo(range); // called when a key zooms
    this.owner = ""; // whose values it shows: the start of the names of saved files
    this.legend = new Legend(() => this.showLines());
    this.title = el("span", { class: "ba-label" }, title);
    this.reset = smallButton("Reset zoom", () => this.onReset(), { hidden: true });
    this.tools = chartTools(this);
    this.empty = el("div", { class: "ba-empty" });
    const keydown = (/** @type {KeyboardEvent} */ event) => this.onKey(event);
    this.box = el("div", { class: "ba-plot", tabindex: 0, role: "img", keydown, blur: () => this.#hideCursor() }, this.empty);
    /** @type {HTMLElement} */
    this.element = this.box; // the frame with title, legend and tools; made by each kind of chart
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

  /**
   * All values as a table.
   * @returns {ValueTable}
   */
  values() {
    return { header: [], rows: [] };
  }

  /**
   * A value with as many digits as its axis.
   * @param {number | null | undefined} value
   */
  format(value) {
    const { min, max, distr } = this.plot?.scales.y ?? {};
    return distr === 3 ? readText(value, 0, Math.abs(Number(value))) : readText(value, min ?? 0, max ?? 0);
  }

  /**
   * Arrows move the cursor, with Shift from point to point, Home and End to an end; + and - zoom, Escape shows all.
   * @param {KeyboardEvent} event
   */
  onKey(event) {
    const plot = this.plot;
    if (!plot) return;
    const way = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") this.onReset();
    else if (way !== undefined) this.#move(plot, way, event.shiftKey);
    else if (event.key === "+" || event.key === "-") this.#zoom(plot, event.key === "+" ? 1 / ZOOM_FACTOR : ZOOM_FACTOR);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @type {(plot: uPlot, way: number, isSingle: boolean) => void} */
  #move(plot, way, isSingle) {
    const [from, to] = plot.series[0]?.idxs ?? [0, 0];
    const stride = isSingle ? 1 : Math.max(1, Math.round((to - from) * MOVE_SHARE));
    const at = plot.cursor.idx ?? (way < 0 ? to + 1 : from - 1);
    const x = plot.data[0][Math.min(to, Math.max(from, at + way * stride))];
    if (x !== undefined) setCursor(plot, plot.valToPos(x, "x"));
  }

  /**
   * Shows a part of the x axis.
   * @param {{min: number, max: number}} range
   */
  zoomTo(range) {
    this.isZoomed = true;
    this.reset.hidden = false;
    this.plot?.setScale("x", range);
  }

  /**
   * Zooms around the cursor.
   * @param {uPlot} plot
   * @param {number} factor of the visible range
   */
  #zoom(plot, factor) {
    const xs = plot.data[0];
    const { min = 0, max = 0 } = /** @type {{min?: number, max?: number}} */ (plot.scales.x ?? {});
    const middle = xs[plot.cursor.idx ?? -1] ?? (min + max) / 2;
    const range = { min: Math.max(xs[0] ?? 0, middle - (middle - min) * factor), max: Math.min(xs[xs.length - 1] ?? 0, middle + (max - middle) * factor) };
    this.onZoom(range);
  }

  #hideCursor() {
    if (this.plot) setCursor(this.plot, -10);
  }

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
      move: snapped,
      hover: { skip: [null] }, // lines have points of their own
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
    this.legend.resized();
    if (!this.plot) return this.paint();
    this.plot.setSize({ width, height: this.box.clientHeight });
    if (this.isBehind) this.paint();
    this.resized();
  }
}

/**
 * The cursor at the nearest point.
 * @type {uPlot.Cursor.MousePosRefiner}
 */
function snapped(plot, left, top) {
  const x = left < 0 ? undefined : plot.data[0][plot.posToIdx(left)];
  return [x === undefined ? left : plot.valToPos(x, "x"), top];
}

/**
 * Moves the cursor, in linked charts too; a negative position hides it.
 * @param {uPlot} plot
 * @param {number} left
 */
function setCursor(plot, left) {
  const isLinked = true;
  /** @type {any} */ (plot).setCursor({ left, top: left < 0 ? left : 10 }, true, isLinked);
}

/**
 * @param {string} text
 * @param {() => void} click
 * @param {Record<string, string | boolean>} attributes
 */
export function smallButton(text, click, attributes) {
  return el("button", { type: "button", class: "ba-button ba-small", click, ...attributes }, text);
}

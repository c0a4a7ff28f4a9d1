// The one chart engine: lines over an x axis with their bands in a uPlot, behind a title, a legend, zoom and tools. Each
// kind of chart says what it draws.

import uPlot from "uplot";
import { readText } from "./chart_axes.js";
import { Legend } from "./chart_legend.js";
import { CURSOR_POINTS, looks, onThemeChange } from "./chart_style.js";
import { chartTools } from "./chart_tools.js";
import { el, oncePerFrame, setText } from "./dom.js";

/** @typedef {import("./chart_tools.js").ValueTable} ValueTable */
/** @typedef {import("./chart_legend.js").Entry} Entry */
/** @typedef {(number | null)[]} Column */

/**
 * A line as it is drawn. `keys`: the legend's entries that hide it; `run`: the run, all of whose lines are focused together.
 * @typedef {import("./chart_style.js").Line & {keys: string[], run?: string}} DrawnLine
 */

/**
 * What a chart draws: x values, a column for each line, and two for the edges of each band. A chart with another `look`
 * is made anew. `isMany`: there are so many lines that the one under the cursor comes to the front; `range`: the range of
 * an x axis that cannot be zoomed.
 * @typedef {{xs: ArrayLike<number>, columns: ArrayLike<number | null | undefined>[], lines: DrawnLine[], bands: {keys: string[], colour: string}[],
 *   axis: import("./chart_axes.js").XAxis, along: string, look: string, fromZero?: boolean, isMany?: boolean, range?: uPlot.Range.Function | undefined}} Picture
 */

/** The texts for the legend (`position`, `entries`) and for a screen reader (`words`). @typedef {{position: string, entries: Entry[], words: string}} Readout */

const NEAR_PX = 30; // distance within which a line is under the cursor
const UNFOCUSED = 0.18; // opacity of the other lines
const MOVE_SHARE = 0.02; // of the visible points, per press of an arrow key
const ZOOM_FACTOR = 2; // per press of + or -

export class Chart {
  /**
   * @param {string} title
   * @param {string} syncKey charts with the same key share their cursor
   */
  constructor(title, syncKey) {
    this.syncKey = syncKey;
    /** @type {Picture | null} */
    this.picture = null; // the one that is drawn
    this.isLog = false;
    this.hasLog = true; // whether a logarithmic scale is offered
    /** @type {uPlot | null} */
    this.plot = null;
    this.drawn = ""; // a key of the current plot's structure
    this.isZoomed = false;
    this.isBehind = false; // new data arrived while the chart was invisible
    this.onReset = () => this.resetZoom(); // called when the user resets the zoom
    this.onZoom = (/** @type {{min: number, max: number}} */ range) => this.zoomTo(range); // called when a key zooms
    this.owner = ""; // the job or comparison whose values it shows: the names of saved files start with it
    this.legend = new Legend(() => this.showLines());
    this.title = el("span", { class: "ba-label" }, title);
    this.reset = smallButton("Reset zoom", () => this.onReset(), { hidden: true });
    this.log = smallButton("log", () => this.#toggleLog(), { title: "Logarithmic scale", "aria-pressed": "false", hidden: true });
    this.tools = chartTools(this);
    this.empty = el("div", { class: "ba-empty" });
    const keydown = (/** @type {KeyboardEvent} */ event) => this.onKey(event);
    this.box = el("div", { class: "ba-plot", tabindex: 0, role: "img", keydown, blur: () => this.plot && setCursor(this.plot, -10) }, this.empty);
    /** @type {HTMLElement} */
    this.element = this.box; // the frame with title, legend and tools; made by each kind of chart
    this.frame = oncePerFrame(() => this.paint());
    // The first resize comes when the element is in the page: only then are its colours known.
    this.resizing = new ResizeObserver(() => this.#resize());
    this.resizing.observe(this.box);
    this.stopTheme = onThemeChange(() => this.plot?.redraw(false));
  }

  /** What is to be drawn now; null without data. @returns {Picture | null} */
  pictured() {
    return null;
  }

  /** The message of an empty chart. */
  get emptyMessage() {
    return "";
  }

  /** The x value where the shaded area of the warm-up ends; null without one. @returns {number | null} */
  shadedTo() {
    return null;
  }

  /** Where vertical lines are. @returns {import("./chart_style.js").Mark[]} */
  marks() {
    return [];
  }

  /**
   * The series of a line, changed for this kind of chart.
   * @param {uPlot.Series} series
   * @param {number} _index of the line
   */
  refined(series, _index) {
    return series;
  }

  /** Called after a plot was made. */
  made() {}

  /** Called after the plot was resized. */
  resized() {}

  /** Called with the index of the line under the cursor, where there are many. @param {number | null} _index */
  focused(_index) {}

  /** The values under the cursor, or the latest ones. @type {(_picture: Picture) => Readout | null} */
  readout(_picture) {
    return null;
  }

  /** Draws the current data immediately. */
  draw() {
    const picture = (this.picture = this.pictured());
    this.empty.hidden = picture !== null;
    this.log.hidden = picture === null || !this.hasLog;
    this.tools.hidden = picture === null;
    setText(this.empty, this.emptyMessage);
    const wanted = picture ? `${this.isLog}\n${picture.look}` : "";
    if (wanted !== this.drawn) {
      this.drawn = wanted;
      const zoom = this.isZoomed && this.plot ? { ...this.plot.scales.x } : null;
      this.plot?.destroy();
      this.plot = picture && this.#make(picture);
      if (zoom) this.plot?.setScale("x", { min: zoom.min ?? 0, max: zoom.max ?? 1 });
      if (this.plot) this.made();
      this.showLines();
    }
    if (picture) this.plot?.setData(this.#columns(picture), !this.isZoomed);
    if (this.isZoomed) this.plot?.redraw();
    this.describe();
  }

  /** @param {Picture} picture */
  #make(picture) {
    const { lines, bands, axis, along, range } = picture;
    const style = looks(this.box, lines, {
      bands: bands.map(({ colour }) => colour),
      isLog: this.isLog,
      fromZero: Boolean(picture.fromZero),
      shadedTo: () => this.shadedTo(),
      marks: () => this.marks(),
      axis,
    });
    /** @type {uPlot.Options} */
    const options = {
      ...style,
      scales: { ...style.scales, ...(range ? { x: { time: false, range } } : {}) },
      series: (style.series ?? []).map((series, i) => (i && i <= lines.length ? this.refined(series, i - 1) : series)),
      width: this.box.clientWidth,
      height: this.box.clientHeight,
      cursor: { ...this.#cursor(!range), focus: { prox: picture.isMany ? NEAR_PX : -1 } },
      focus: { alpha: UNFOCUSED },
      hooks: {
        ...style.hooks,
        setCursor: [() => this.describe()],
        setSelect: [
          (plot) => {
            if (plot.select.width > 0) this.isZoomed = true;
            this.reset.hidden = !this.isZoomed;
          },
        ],
        setSeries: [(_, index, how) => this.focused(/** @type {any} */ (how).focus && index !== null ? index - 1 : null)],
      },
    };
    this.box.dataset.along = along;
    return new uPlot(options, this.#columns(picture), this.box);
  }

  /**
   * The columns of the plot; a logarithmic scale cannot show values that are not positive.
   * @param {Picture} picture
   */
  #columns({ xs, columns }) {
    return /** @type {uPlot.AlignedData} */ ([xs, ...(this.isLog ? columns.map(positive) : columns)]);
  }

  #toggleLog() {
    this.isLog = !this.isLog;
    this.log.setAttribute("aria-pressed", String(this.isLog));
    this.paint();
  }

  /** Applies the legend's hidden lines. */
  showLines() {
    const { plot, picture } = this;
    if (!plot || !picture) return;
    const keys = [...picture.lines, ...picture.bands.flatMap((band) => [band, band])].map((each) => each.keys);
    plot.batch(() =>
      keys.forEach((lineKeys, i) => {
        const show = !lineKeys.some((key) => this.legend.hidden.has(key));
        if (plot.series[i + 1]?.show !== show) plot.setSeries(i + 1, { show });
      }),
    );
  }

  /** Brings the lines of a run to the front; null: all are alike. @param {string | null} run */
  focus(run) {
    const index = this.picture?.lines.findIndex((line) => run !== null && line.run === run) ?? -1;
    if (this.plot && (index >= 0 || run === null)) this.plot.setSeries(index < 0 ? null : index + 1, { focus: true });
  }

  /** Updates legend and label with the values under the cursor, or the latest ones. */
  describe() {
    const readout = this.plot && this.picture ? this.readout(this.picture) : null;
    this.legend.show(readout?.position ?? "", readout?.entries ?? []);
    this.box.setAttribute("aria-label", readout ? `${this.title.textContent}${readout.words}` : `${this.title.textContent}: ${this.emptyMessage}`);
  }

  /** All values as a table. @returns {ValueTable} */
  values() {
    return { header: [], rows: [] };
  }

  /** A value with as many digits as its axis. @param {number | null | undefined} value */
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

  /** Shows a part of the x axis. @param {{min: number, max: number}} range */
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

  /** The cursor options of the plot. @type {(canZoom: boolean) => uPlot.Cursor} */
  #cursor(canZoom) {
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

/** The cursor at the nearest point. @type {uPlot.Cursor.MousePosRefiner} */
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

/** A column for a logarithmic scale. @param {ArrayLike<number | null | undefined>} column */
function positive(column) {
  return Array.from(column, (value) => (Number(value) > 0 ? Number(value) : null));
}

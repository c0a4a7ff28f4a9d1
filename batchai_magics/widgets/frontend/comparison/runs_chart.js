// A chart whose lines each have their own x values: one per run, or one per model.

import uPlot from "uplot";
import { countAxis } from "../core/chart_axes.js";
import { FramedChart } from "../core/chart_frame.js";
import { ACCENT, looks, rankColour } from "../core/chart_style.js";
import { el, setText } from "../core/dom.js";

/** @typedef {(number | null)[]} Column */
/** @typedef {{key: string, label: string, colour: string, isDashed?: boolean, isQuiet?: boolean, x: Column, y: Column}} Line */

/** @typedef {{title: string, empty: string, fromZero?: boolean, hasPoints?: boolean, unit?: string}} Subject */

const MAX_ENTRIES = 4; // lines whose values the legend shows
const COLOURS = 9;
const DASH = [6, 4];
const MARGIN = 1.08; // right of the last point, where points are drawn
const QUIET = "--ba-muted";

/** @param {number} place index of the run */
export function runColour(place) {
  return place % COLOURS ? rankColour((place % COLOURS) - 1) : ACCENT;
}

/** @param {number} place */
export function isDashed(place) {
  return place >= COLOURS;
}

export class LinesChart extends FramedChart {
  /**
   * @param {Subject} subject
   * @param {string} syncKey charts with the same key share their cursor
   */
  constructor(subject, syncKey) {
    super(subject.title, syncKey);
    this.subject = subject;
    /** @type {Line[]} */
    this.lines = [];
    /** @type {(x: number) => string} */
    this.tell = String;
    this.along = "";
    /** @type {ReturnType<typeof merged>} */
    this.data = { xs: [], columns: [] };
    this.menu = el("select", { class: "ba-select", "aria-label": "Draw over", hidden: true });
    setText(this.empty, subject.empty);
    this.box.classList.add("ba-lines");
    const head = el("div", { class: "ba-chart-head ba-of-runs" }, this.title, this.menu, this.legend.element, this.reset, this.tools);
    this.element = el("section", { class: "ba-chart", "aria-label": subject.title }, head, this.box);
  }

  /**
   * Draws these lines, in the next frame.
   * @param {Line[]} lines
   * @param {(x: number) => string} tell formats an x value
   * @param {string} along label of the x axis
   */
  show(lines, tell, along) {
    this.lines = lines;
    this.tell = tell;
    if (along !== this.along) {
      this.along = along;
      this.resetZoom();
    }
    this.frame.ask();
  }

  /**
   * Sets the title.
   * @param {string} title
   */
  name(title) {
    setText(this.title, title);
    this.element.setAttribute("aria-label", title);
  }

  draw() {
    this.data = merged(this.lines);
    this.empty.hidden = this.data.xs.length > 0;
    const wanted = this.data.xs.length ? [this.along, ...this.lines.map((line) => line.key + line.label)].join("\n") : "";
    if (wanted !== this.drawn) {
      this.plot?.destroy();
      this.plot = wanted ? this.#made() : null;
      this.drawn = wanted;
    }
    this.box.dataset.along = this.along;
    this.plot?.setData(this.#columns(), !this.isZoomed);
    if (this.isZoomed) this.plot?.redraw();
    this.describe();
  }

  /** @returns {uPlot.AlignedData} */
  #columns() {
    return /** @type {uPlot.AlignedData} */ ([this.data.xs, ...this.data.columns]);
  }

  #made() {
    const { fromZero, hasPoints } = this.subject;
    const looksOf = this.lines.map((line) => ({ label: line.label, colour: line.isQuiet ? QUIET : line.colour, width: line.isQuiet ? 1 : 2 }));
    const style = looks(this.box, looksOf, { hasBand: false, isLog: false, fromZero: Boolean(fromZero), shadedTo: () => null, axis: countAxis(this.along) });
    const series = (style.series ?? []).map((one, i) => this.#dashed(one, this.lines[i - 1]));
    const range = (/** @type {uPlot} */ _, /** @type {number} */ min, /** @type {number} */ max) => /** @type {uPlot.Range.MinMax} */ ([0, (max || 1) * MARGIN]);
    /** @type {uPlot.Options} */
    const options = {
      ...style,
      scales: hasPoints ? { ...style.scales, x: { time: false, range } } : style.scales ?? {},
      series,
      width: this.box.clientWidth,
      height: this.box.clientHeight,
      cursor: this.cursor(!hasPoints),
      hooks: this.hooks(),
    };
    const plot = new uPlot(options, this.#columns(), this.box);
    queueMicrotask(() => this.showLines());
    return plot;
  }

  /**
   * @param {uPlot.Series} series
   * @param {Line | undefined} line
   * @returns {uPlot.Series}
   */
  #dashed(series, line) {
    if (!line) return series;
    const points = { ...series.points, show: Boolean(this.subject.hasPoints) && !line.isQuiet, size: 7 };
    return { ...series, ...(line.isDashed ? { dash: DASH } : {}), ...(this.subject.hasPoints ? { points } : {}) };
  }

  /** Applies the legend's hidden lines. */
  showLines() {
    this.lines.forEach((line, i) => this.plot?.setSeries(i + 1, { show: !this.legend.hidden.has(line.key) }));
  }

  values() {
    const { xs, columns } = this.data;
    const rows = xs.map((x, i) => [x, ...columns.map((column) => column[i] ?? null)]);
    return { header: [this.along, ...this.lines.map((line) => line.label)], rows };
  }

  /** Updates legend and label with the values under the cursor, or the latest ones. */
  describe() {
    const { empty, unit } = this.subject;
    const title = this.title.textContent;
    const { xs, columns } = this.data;
    if (!xs.length) {
      this.legend.show("", []);
      this.box.setAttribute("aria-label", `${title}: ${empty}`);
      return;
    }
    const row = this.plot?.cursor.idx ?? null;
    const entries = this.lines.flatMap((line, i) => {
      const column = columns[i] ?? [];
      const value = this.format(row === null ? latest(column) : valueAt(column, row));
      const text = `${line.label} ${value}${unit ?? ""}`;
      return line.isQuiet || latest(column) === null ? [] : [{ key: line.key, text, colour: line.colour }];
    });
    const quiet = this.lines.find((line) => line.isQuiet); // the shared reference line is named once
    const held = quiet ? [{ key: quiet.key, text: quiet.label, colour: QUIET, isDashed: true }] : [];
    const place = row === null ? "" : this.tell(xs[row] ?? 0);
    this.legend.show(place, [...(entries.length > MAX_ENTRIES ? [] : entries), ...held]);
    const words = entries.map((entry) => entry.text).join(", ");
    this.box.setAttribute("aria-label", `${title}${place ? ` at ${place}` : ", latest"}: ${words}`);
    setText(this.empty, empty);
  }
}

/**
 * All x values in order, and a column for each line with its values at them.
 * @param {Line[]} lines
 * @returns {{xs: number[], columns: Column[]}}
 */
export function merged(lines) {
  const known = lines.map(pointsOf);
  const xs = [...new Set(known.flatMap((points) => [...points.keys()]))].sort((a, b) => a - b);
  return { xs, columns: known.map((points) => xs.map((x) => points.get(x) ?? null)) };
}

/**
 * A column's value at a row, or the nearest one before it; null before its first and after its last value.
 * @param {Column} column
 * @param {number} row
 * @returns {number | null}
 */
export function valueAt(column, row) {
  if (!column.slice(row).some((value) => value !== null)) return null;
  for (let i = row; i >= 0; i -= 1) {
    const value = column[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/**
 * @param {Column} column
 * @returns {number | null}
 */
export function latest(column) {
  for (let i = column.length - 1; i >= 0; i -= 1) {
    const value = column[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/**
 * @param {Line} line
 * @returns {Map<number, number>}
 */
function pointsOf({ x, y }) {
  /** @type {Map<number, number>} */
  const points = new Map();
  x.forEach((place, i) => {
    const value = y[i];
    if (place !== null && value !== null && value !== undefined) points.set(place, value);
  });
  return points;
}

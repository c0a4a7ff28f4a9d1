// A chart whose lines each have their own x values: one per run or group of runs, or one per model.

import uPlot from "uplot";
import { Chart } from "../core/chart.js";
import { ACCENT, rankColour } from "../core/chart_style.js";
import { el, setText } from "../core/dom.js";

/** @typedef {import("../core/chart_axes.js").XAxis} XAxis */
/** @typedef {import("../core/chart.js").Column} Column */
/** @typedef {import("../core/chart.js").Picture} Picture */

/**
 * A line; `run` is the key of all lines of a run, `spread` the half-width of a band around it. With `isPoints` it
 * is points without a line between them, with `isStepped` each value holds until the next one.
 * @typedef {{key: string, run?: string, label: string, colour: string, dash?: number[], isQuiet?: boolean, isPoints?: boolean, isStepped?: boolean, x: Column, y: Column, spread?: Column}} Line
 */

/** @typedef {{title: string, empty: string, fromZero?: boolean, hasPoints?: boolean, unit?: string}} Subject */

const MAX_ENTRIES = 4; // lines whose values the legend shows; of more, only the one under the cursor
const MANY_POINTS = 300; // from which on points are small squares
const SQUARE_PX = 3;
const MANY = 18; // number of lines from which on they are thin
const COLOURS = 9;
const MARGIN = 1.08; // right of the last point, where points are drawn
const QUIET = "--ba-muted";
const MAX_XS = 1500; // x values of all lines together; of more, lines are drawn on a grid
const GRID = 600;

const STEPPED = uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {};

export const DASH = [6, 4];

/** @param {number} index of the run */
export function runColour(index) {
  return index % COLOURS ? rankColour((index % COLOURS) - 1) : ACCENT;
}

/** @param {number} index of the run */
export function isDashed(index) {
  return Math.floor(index / COLOURS) % 2 === 1;
}

export class LinesChart extends Chart {
  /**
   * @param {Subject} subject
   * @param {string} syncKey charts with the same key share their cursor
   */
  constructor(subject, syncKey) {
    super(subject.title, syncKey);
    this.subject = subject;
    /** @type {Line[]} */
    this.lines = [];
    /** @type {XAxis | null} */
    this.axis = null;
    this.hasLog = !subject.hasPoints;
    this.isScatter = Boolean(subject.hasPoints); // lines have points, and the x axis has margins
    /** @type {Line | null} */
    this.front = null; // the line under the cursor, where there are many
    this.onFocus = (/** @type {string | null} */ _run) => {}; // called with the run of that line
    /** @type {ReturnType<typeof merged>} */
    this.data = { xs: [], columns: [] };
    this.box.classList.add("ba-lines");
    const head = el("div", { class: "ba-chart-head ba-of-runs" }, this.title, this.legend.element, this.reset, this.log, this.tools);
    this.element = el("section", { class: "ba-chart", "aria-label": subject.title }, head, this.box);
  }

  /**
   * Draws these lines, in the next frame.
   * @param {Line[]} lines
   * @param {XAxis} axis
   * @param {{isScatter?: boolean}} [how] `isScatter`: runs are points
   */
  show(lines, axis, { isScatter = Boolean(this.subject.hasPoints) } = {}) {
    this.lines = lines;
    const isOther = axis.label !== this.axis?.label;
    [this.axis, this.isScatter] = [axis, isScatter];
    if (isOther) this.resetZoom();
    this.frame.ask();
  }

  /** Draws now, instead of in the next frame. */
  flush() {
    this.frame.stop();
    this.paint();
  }

  /** Sets the title. @param {string} title */
  name(title) {
    setText(this.title, title);
    this.element.setAttribute("aria-label", title);
  }

  get #isMany() {
    return this.lines.filter((line) => !line.isQuiet).length > MAX_ENTRIES;
  }

  get emptyMessage() {
    return this.subject.empty;
  }

  pictured() {
    const { lines, isScatter } = this;
    const bands = lines.filter((line) => line.spread);
    this.data = merged([...lines, ...bands.flatMap(edges)]);
    if (!this.data.xs.length) return null;
    const axis = /** @type {XAxis} */ (this.axis);
    const looks = lines.map((line) => `${line.key} ${line.label} ${line.colour} ${line.dash ?? ""} ${Boolean(line.spread)} ${isCrowded(line)}`);
    const isThin = lines.length > MANY;
    return {
      ...this.data,
      lines: lines.map((line) => ({ keys: keysOf(line), ...(line.run === undefined ? {} : { run: line.run }), label: line.label, colour: line.isQuiet ? QUIET : line.colour, width: line.isQuiet || isThin ? 1 : 2 })),
      bands: bands.map((line) => ({ keys: keysOf(line), colour: line.colour })),
      axis,
      along: axis.label,
      look: [axis.label, isScatter, ...looks].join("\n"),
      fromZero: Boolean(this.subject.fromZero),
      isMany: this.#isMany,
      range: isScatter ? this.#margins : undefined,
    };
  }

  made() {
    this.front = null;
  }

  /** The x axis of points: counts from zero, anything else with room at both ends. @type {uPlot.Range.Function} */
  #margins = (_, min, max) => {
    if (this.subject.hasPoints) return [0, (max || 1) * MARGIN];
    const room = (max - min || 1) * (MARGIN - 1);
    return [min - room, max + room];
  };

  /** @type {(series: uPlot.Series, index: number) => uPlot.Series} */
  refined(series, index) {
    const line = /** @type {Line} */ (this.lines[index]);
    if (isCrowded(line)) return { ...series, fill: series.stroke ?? "", paths: squares, points: { show: false } };
    if (line.isPoints) return { ...series, paths: () => null, points: { ...series.points, show: true, size: 7 } };
    if (line.isStepped) return { ...series, ...STEPPED, points: { show: false } };
    const points = { ...series.points, show: !line.isQuiet, size: this.lines.length > MANY ? 6 : 8 };
    return { ...series, ...(line.dash ? { dash: line.dash } : {}), ...(this.isScatter ? { points } : {}) };
  }

  /** @param {number | null} index */
  focused(index) {
    const line = index === null || !this.#isMany ? null : (this.lines[index] ?? null);
    if (line === this.front) return;
    this.front = line;
    this.onFocus(line?.run ?? null);
    this.describe();
  }

  values() {
    const { xs, columns } = this.data;
    const rows = xs.map((x, i) => [x, ...this.lines.map((_, k) => columns[k]?.[i] ?? null)]);
    return { header: [this.axis?.label ?? "", ...this.lines.map((line) => line.label)], rows };
  }

  readout() {
    const { unit } = this.subject;
    const { xs, columns } = this.data;
    const row = this.plot?.cursor.idx ?? null;
    const entries = this.lines.flatMap((line, i) => {
      const column = columns[i] ?? [];
      if (line.isQuiet || latest(column) === null) return [];
      const spread = line.spread && row !== null ? valueAt(columns[this.#edgeOf(line)] ?? [], row) : null;
      const value = row === null ? latest(column) : valueAt(column, row);
      const error = spread === null || value === null ? "" : ` ± ${this.format(spread - value)}`;
      const text = `${line.label} ${this.format(value)}${unit ?? ""}${error}`;
      return [{ key: line.key, text, colour: line.colour, isDashed: Boolean(line.dash) }];
    });
    const quiet = this.lines.find((line) => line.isQuiet); // the shared reference line is named once
    const reference = quiet ? [{ key: quiet.key, text: quiet.label, colour: QUIET, isDashed: true }] : [];
    const position = row === null ? "" : (this.axis?.words(xs[row] ?? 0) ?? "");
    const shown = this.#isMany ? entries.filter(({ key }) => key === this.front?.key) : entries;
    const words = entries.map((entry) => entry.text).join(", ");
    return { position, entries: [...shown, ...reference], words: `${position ? ` at ${position}` : ", latest"}: ${words}` };
  }

  /** The column of a line's upper edge. @param {Line} line */
  #edgeOf(line) {
    return this.lines.length + 2 * this.lines.filter((each) => each.spread).indexOf(line);
  }
}

/** The keys of the legend that hide a line. @param {Line} line */
function keysOf({ key, run }) {
  return run === undefined ? [key] : [key, run];
}

/** Whether the points of a line are small squares. @param {Line} line */
function isCrowded({ isPoints, x }) {
  return Boolean(isPoints) && x.length > MANY_POINTS;
}

/** A small square for each value: thousands of circles take too long. @type {uPlot.Series.PathBuilder} */
function squares(plot, index, first, last) {
  const fill = new Path2D();
  const size = SQUARE_PX * devicePixelRatio;
  const [xs, ys = []] = [plot.data[0], plot.data[index]];
  for (let i = first; i <= last; i += 1) {
    const value = ys[i];
    if (value === null || value === undefined) continue;
    fill.rect(plot.valToPos(Number(xs[i]), "x", true) - size / 2, plot.valToPos(value, "y", true) - size / 2, size, size);
  }
  return { stroke: null, fill };
}

/** The upper and the lower edge of a line's band. @type {(line: Line) => {x: Column, y: Column}[]} */
function edges({ x, y, spread = [] }) {
  return [1, -1].map((sign) => ({ x, y: y.map((value, i) => (value === null ? null : value + sign * (spread[i] ?? 0))) }));
}

/**
 * All x values in order, and a column for each line with its values at them. Of very many x values, a grid.
 * @param {{x: Column, y: Column}[]} lines
 * @returns {{xs: number[], columns: Column[]}}
 */
export function merged(lines) {
  const longest = lines.reduce((/** @type {Column} */ most, { x }) => (x.length > most.length ? x : most), []);
  if (lines.every(({ x }) => isStartOf(x, longest))) {
    const columns = lines.map(({ x, y }) => (x.length === longest.length ? y : [...y, ...new Array(longest.length - x.length).fill(null)]));
    return { xs: /** @type {number[]} */ (longest), columns };
  }
  const known = lines.map(pointsOf);
  const all = new Set();
  for (const points of known) for (const x of points.keys()) all.add(x);
  const xs = /** @type {number[]} */ ([...all]).sort((a, b) => a - b);
  if (xs.length > MAX_XS) return gridded(known, Number(xs[0]), Number(xs[xs.length - 1]));
  return { xs, columns: known.map((points) => xs.map((x) => points.get(x) ?? null)) };
}

/**
 * Whether a column is the start of another one, ascending and without gaps.
 * @type {(x: Column, longest: Column) => boolean}
 */
function isStartOf(x, longest) {
  if (x === longest && x.length === 0) return true;
  for (let i = 0; i < x.length; i += 1) {
    const value = x[i];
    if (value === null || value !== longest[i] || (i && Number(x[i - 1]) >= Number(value))) return false;
  }
  return true;
}

/**
 * Lines on evenly spaced x values, linear between their points.
 * @type {(lines: Map<number, number>[], first: number, last: number) => {xs: number[], columns: Column[]}}
 */
function gridded(lines, first, last) {
  const xs = Array.from({ length: GRID }, (_, i) => first + ((last - first) * i) / (GRID - 1));
  return { xs, columns: lines.map((points) => interpolated([...points.keys()], [...points.values()], xs)) };
}

/**
 * The values of a line at other x values; null outside of it.
 * @param {number[]} x ascending
 * @param {number[]} y
 * @param {number[]} wanted ascending
 * @returns {Column}
 */
export function interpolated(x, y, wanted) {
  let i = 0;
  return wanted.map((at) => {
    while (i < x.length && Number(x[i]) < at) i += 1;
    if (x[i] === at) return y[i] ?? null;
    if (i === 0 || i === x.length) return null;
    const [left, right, low, high] = [Number(x[i - 1]), Number(x[i]), Number(y[i - 1]), Number(y[i])];
    return low + ((high - low) * (at - left)) / (right - left);
  });
}

/**
 * A column's value at a row, or the nearest one before it; null before its first and after its last value.
 * @param {Column} column
 * @param {number} row
 * @returns {number | null}
 */
export function valueAt(column, row) {
  return latest(column.slice(row)) === null ? null : latest(column.slice(0, row + 1));
}

/** @type {(column: Column) => number | null} */
export function latest(column) {
  return column.findLast((value) => value !== null && value !== undefined) ?? null;
}

/** @type {(line: {x: Column, y: Column}) => Map<number, number>} */
function pointsOf({ x, y }) {
  /** @type {Map<number, number>} */
  const points = new Map();
  x.forEach((at, i) => {
    const value = y[i];
    if (at !== null && value !== null && value !== undefined) points.set(at, value);
  });
  return points;
}

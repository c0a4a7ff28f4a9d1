// A chart over steps, epochs or time: a line per phase and per rank (of many ranks, a band from the lowest to the
// highest), one over all ranks with its jitter, a legend, zoom.

import uPlot from "uplot";
import { Chart } from "../core/chart.js";
import { smoothed } from "../core/chart_grid.js";
import { ACCENT, FAINT, lineLooks, PHASES, rankColour } from "../core/chart_style.js";
import { el } from "../core/dom.js";
import { lastIndexWhere } from "../core/format.js";
import { XScale } from "../core/x_scales.js";

/** @typedef {import("../core/chart.js").DrawnLine} DrawnLine */
/** @typedef {import("../core/chart.js").Picture} Picture */
/** @typedef {import("../core/chart_legend.js").Entry} Entry */
/** @typedef {import("../core/chart_style.js").Phase} Phase */
/** @typedef {import("./chart_points.js").Column} Column */
/** @typedef {import("./chart_points.js").Series} Series */

/** A metric of the chart. @typedef {{name: string, phase: Phase, label: string, series: Series}} PhaseLine */

/**
 * What a chart shows: metrics of one quantity, the first with its ranks. `band` is the half-width of the band
 * around its line over all ranks.
 * @typedef {{title: string, lines: PhaseLine[], band?: Series, over: string, fromZero?: boolean, hasWarmUp?: boolean}} Subject
 */

const HEAD_GAP_PX = 8; // between the parts of a header
const SHORT_PX = 140; // height of a plot whose x axis has no title: the toolbar says what it is
const MAX_LINES = 16; // of ranks; above this, a band stands for them
const GROUPED = 10_000; // steps from here on have commas
const BY_STEP = new XScale("step");

export class StepChart extends Chart {
  /**
   * @param {Subject} subject
   * @param {string} syncKey charts with the same key share their cursor
   */
  constructor(subject, syncKey) {
    super(subject.title, syncKey);
    this.subject = subject;
    this.scale = BY_STEP;
    this.weight = 0; // smoothing weight of earlier values, for the first line over all ranks
    this.isComplete = false; // no more values will come
    /** @type {number | null} */
    this.warmUp = null;
    this.scales = [BY_STEP]; // all that the job's numbers allow
    /** @type {[number, number][]} */
    this.attempts = []; // those after the first one, each with its first step
    /** @type {number[][]} */
    this.xs = []; // the x values of each line
    /** @type {Column | undefined} */
    this.spread = undefined; // half the height of the band at each step of the first line
    this.head = el("div", { class: "ba-chart-head" }, this.title, this.legend.element, this.reset, this.log, this.tools);
    this.isEach = false; // whether the legend has room for every rank
    this.room = { beside: 0, below: 0 }; // for the legend: beside the title, on a line of its own
    this.widest = { each: 0, brief: 0 }; // the legend so far, with every rank and with their range
    this.element = el("div", { class: "ba-chart", role: "group", "aria-label": subject.title }, this.head, this.box);
  }

  /** The line with its ranks. */
  get #main() {
    return /** @type {PhaseLine} */ (this.subject.lines[0]);
  }

  /** The ranks that have lines. */
  get #ranks() {
    const { ranks } = this.#main.series;
    return ranks.length > 1 && !this.#isBanded ? ranks : [];
  }

  /** Whether the log tells steps; without any, points are numbered. */
  get #hasSteps() {
    return this.scales.some(({ name }) => name === "step");
  }

  /** Whether a band stands for the ranks. */
  get #isBanded() {
    return this.#main.series.byRank.size > MAX_LINES;
  }

  get #hasBand() {
    return this.#isBanded || Boolean(this.subject.band);
  }

  /** Draws new data in the next frame. */
  update() {
    this.frame.ask();
  }

  /**
   * Draws a smoothed line over all ranks in front of the original one.
   * @param {number} weight of earlier values, from 0 to less than 1
   */
  smooth(weight) {
    this.weight = weight;
    this.update();
  }

  /**
   * Sets the x axis, and all that there could be.
   * @param {XScale} scale
   * @param {XScale[]} scales
   */
  setScale(scale, scales) {
    const isOther = scale.name !== this.scale.name;
    [this.scale, this.scales] = [scale, scales];
    if (isOther) this.resetZoom();
  }

  resized() {
    this.#measure();
    this.update(); // a short plot has another axis
  }

  pictured() {
    const { lines, band, fromZero } = this.subject;
    for (const { series } of lines) series.settle();
    if (!lines.some(({ series }) => series.hasValues)) return null;
    band?.settle();
    this.spread = band?.at(this.#main.series.steps);
    this.xs = lines.map(({ series }) => this.scale.of(series.steps));
    const [xs = [], ...columns] = this.#data();
    const { axis, name } = this.scale;
    const keys = [this.#isBanded ? EACH : ALL];
    return {
      xs: /** @type {number[]} */ (xs),
      columns,
      lines: this.#lines(),
      bands: this.#hasBand ? [{ keys, colour: ACCENT }] : [],
      axis: this.#isShort ? { ...axis, label: "" } : axis,
      along: name,
      look: [lines.map((line) => line.label), this.#hasBand, this.#isBanded, this.#ranks, this.weight > 0, name, this.#isShort].join(),
      fromZero: Boolean(fromZero),
    };
  }

  shadedTo() {
    return this.subject.hasWarmUp && this.warmUp !== null ? (this.scale.of([this.warmUp])[0] ?? null) : null;
  }

  marks() {
    return this.attempts.map(([attempt, step]) => ({ x: Number(this.scale.of([step])[0]), text: `attempt ${attempt}` }));
  }

  made() {
    this.widest = { each: 0, brief: 0 };
    this.box.dataset.ranks = this.#isBanded ? "band" : "lines";
    this.#measure();
  }

  /** The smoothed line, if it is drawn. */
  get #smooth() {
    return this.weight ? smoothed(this.#main.series.all, this.weight) : undefined;
  }

  get #isShort() {
    return this.box.clientHeight < SHORT_PX;
  }

  get emptyMessage() {
    const { title } = this.subject;
    return this.isComplete ? `No ${title} in the log` : `Waiting for the first ${title}`;
  }

  /**
   * The columns of the plot: x, ranks, the line over them, its smoothed one, other phases, the band's edges.
   * @returns {Column[]}
   */
  #data() {
    const { series } = this.#main;
    const smooth = this.#smooth;
    const [xs = [], ...others] = this.xs;
    const edges = this.#edges();
    const mainColumns = [...this.#ranks.map((rank) => series.byRank.get(rank) ?? []), series.all, ...(smooth ? [smooth] : [])];
    const first = [xs, ...mainColumns, ...edges];
    const rest = others.map((each, i) => [each, this.subject.lines[i + 1]?.series.all ?? []]);
    const [x = [], ...columns] = rest.length ? joined(first, rest) : first;
    const last = columns.splice(mainColumns.length, edges.length);
    return /** @type {Column[]} */ ([x, ...columns, ...last]);
  }

  /**
   * The edges of the band: of the ranks, or around the main line. Beside a total, it is that of as many ranks as fast as
   * the slowest or the fastest one.
   */
  #edges() {
    const { spread } = this;
    const { all, byRank, high, low, over } = this.#main.series;
    if (this.#isBanded) {
      const share = over === "sum" ? byRank.size : 1;
      return [high, low].map((column) => column.map((value) => (value === null ? null : value * share)));
    }
    const edge = (/** @type {number} */ sign) => all.map((value, i) => (value === null ? null : Math.max(0, value + sign * (spread?.[i] ?? 0))));
    return spread ? [edge(1), edge(-1)] : [];
  }

  /** The lines, in the order of their columns. @returns {DrawnLine[]} */
  #lines() {
    const main = this.#main;
    const thick = this.subject.lines.map(({ name, label }, i) => ({ keys: [i ? name : ALL], label, width: 2, .../** @type {{colour: string}} */ (this.#looks[i]) }));
    return [
      ...this.#ranks.map((rank) => ({ keys: [this.isEach ? `r${rank}` : EACH], label: `rank ${rank}`, colour: rankColour(rank), width: 1 })),
      ...(this.weight ? [{ keys: [ALL], label: `${main.label}, as it is`, colour: FAINT, width: 1 }] : []),
      ...thick,
    ];
  }

  /** The look of each metric's line. */
  get #looks() {
    return lineLooks(this.subject.lines.map(({ phase }) => phase));
  }

  /** Measures the room for the legend beside the button that resets the zoom, even while that button is hidden. */
  #measure() {
    const { head, title, reset, log, tools } = this;
    const isHidden = reset.hidden;
    reset.hidden = false;
    const below = head.clientWidth;
    const beside = [title, reset, log, tools].reduce((left, { offsetWidth }) => left - offsetWidth - HEAD_GAP_PX, below);
    reset.hidden = isHidden;
    this.room = { beside, below };
  }

  /**
   * Moves the legend to a line of its own, or shows the range of its ranks, if it needs the room.
   * @param {string} position
   * @param {Entry[]} each
   * @param {Entry[]} brief
   */
  #layOutLegend(position, each, brief) {
    const { room, widest, legend } = this;
    widest.each = Math.max(widest.each, legend.widthOf(position, each));
    widest.brief = Math.max(widest.brief, legend.widthOf(position, brief));
    const isEach = this.#main.series.ranks.length <= MAX_NAMED_RANKS && widest.each <= room.below;
    this.head.classList.toggle("ba-two-lines", (isEach ? widest.each : widest.brief) > room.beside);
    if (isEach === this.isEach) return;
    this.isEach = isEach;
    this.update();
  }

  readout() {
    const { lines } = this.subject;
    const x = this.plot?.data[0][this.plot.cursor.idx ?? -1];
    const rows = lines.map((line, i) => this.#rowAt(line, this.xs[i] ?? [], x));
    const at = this.#lineAt(rows, x);
    const step = lines[at]?.series.steps[rows[at] ?? -1];
    if (step === undefined) return null;
    const [each = [], brief = []] = [true, false].map((isEach) => lines.flatMap((line, i) => (rows[i] === null ? [] : this.#entries(line, Number(rows[i]), step, isEach))));
    const along = this.scale.name === "step" ? [] : [this.scale.axis.words(Number(this.xs[at]?.[Number(rows[at])]))];
    const position = [...(this.#hasSteps ? [`step ${stepText(step)}`] : []), ...along].join(", ");
    this.#layOutLegend(position, each, brief);
    const entries = this.isEach ? each : brief;
    return { position, entries, words: ` at ${[position, ...entries.map(({ text }) => text)].filter(Boolean).join(", ")}` };
  }

  /**
   * The row of a line at `x`, or its latest one; null if it has none.
   * @type {(line: PhaseLine, xs: number[], x: number | undefined) => number | null}
   */
  #rowAt({ series }, xs, x) {
    if (x !== undefined) return xs.length ? nearestIndex(xs, x) : null;
    const last = series.all.findLastIndex((value) => value !== null);
    return last >= 0 ? last : series.hasValues ? xs.length - 1 : null;
  }

  /**
   * The line that has a point at `x`, or else the first one with values.
   * @type {(rows: (number | null)[], x: number | undefined) => number}
   */
  #lineAt(rows, x) {
    const exact = rows.findIndex((row, i) => row !== null && this.xs[i]?.[row] === x);
    return exact < 0 ? rows.findIndex((row) => row !== null) : exact;
  }

  /** @type {(line: PhaseLine, row: number, step: number, isEach: boolean) => Entry[]} */
  #entries(line, row, step, isEach) {
    const { lines, over } = this.subject;
    const isOnly = lines.every((other) => other === line || other.phase !== line.phase);
    const prefix = lines.length > 1 ? `${isOnly ? line.phase : line.label} ` : "";
    const lineStep = line.series.steps[row];
    const suffix = lineStep === step || lineStep === undefined ? "" : ` at ${this.#hasSteps ? stepText(lineStep) : this.scale.axis.words(Number(this.scale.of([lineStep])[0]))}`;
    const format = (/** @type {number | null | undefined} */ value) => this.format(value);
    if (line !== this.#main) {
      const { colour = "", dash } = this.#looks[lines.indexOf(line)] ?? {};
      return [{ key: line.name, text: `${prefix}${format(line.series.all[row])}${suffix}`, colour, isDashed: Boolean(dash) }];
    }
    const entries = entriesAt(row, { series: line.series, over, spread: this.spread, smooth: this.#smooth, isEach, format, phase: line.phase, prefix });
    return entries.map((entry, i) => (i ? entry : { ...entry, text: entry.text + suffix }));
  }

  /** Every point with the values of all lines and ranks, and with its step, epoch and time if known. */
  values() {
    const columns = this.subject.lines.flatMap(({ label, series }) => {
      const ranks = series.ranks.length > 1 ? series.ranks : [];
      return [{ name: label, series, column: series.all }, ...ranks.map((rank) => ({ name: `${label} rank ${rank}`, series, column: series.byRank.get(rank) ?? [] }))];
    });
    const [steps = [], ...joined] = uPlot.join(/** @type {any} */ (columns.map(({ series, column }) => [series.steps, column])));
    const along = this.scales.filter(({ name }) => name !== "step").map((scale) => ({ name: scale.name, column: scale.of(/** @type {number[]} */ (steps)) }));
    const stepColumns = this.#hasSteps ? [steps] : [];
    const all = [...stepColumns, ...along.map(({ column }) => column), ...joined];
    const rows = Array.from(steps, (_, i) => all.map((column) => column[i] ?? null));
    return { header: [...stepColumns.map(() => "step"), ...along.map(({ name }) => (name === "time" ? "seconds" : name)), ...columns.map(({ name }) => name)], rows };
  }
}

/** @param {number} step */
function stepText(step) {
  return step < GROUPED ? String(step) : step.toLocaleString("en");
}

/**
 * Columns over the x values of all: in few steps if those of the first are all, as where validation follows training.
 * @param {(number | null)[][]} first
 * @param {(number | null)[][][]} rest
 */
function joined(first, rest) {
  const [xs = []] = first;
  const columns = rest.map(([others = [], values = []]) => {
    /** @type {(number | null)[]} */
    const column = new Array(xs.length).fill(null);
    let row = 0;
    for (let i = 0; i < others.length; i += 1) {
      while (row < xs.length && Number(xs[row]) < Number(others[i])) row += 1;
      if (xs[row] !== others[i]) return null;
      column[row] = values[i] ?? null;
    }
    return column;
  });
  return columns.includes(null) ? uPlot.join(/** @type {any} */ ([first, ...rest])) : [...first, .../** @type {(number | null)[][]} */ (columns)];
}

/** @typedef {(value: number | null | undefined) => string} Format */

export const ALL = "all";
export const EACH = "ranks";

export const MAX_NAMED_RANKS = 4; // of more, the legend shows the range

/**
 * The entries of the main line and its ranks.
 * @param {number} index of the step
 * @param {{series: Series, over: string, spread?: Column, smooth?: Column, isEach: boolean, format: Format, phase?: Phase, prefix?: string}} what
 *   `isEach`: show every rank; `smooth`: the smoothed line over all ranks; `prefix`: words before the value
 * @returns {Entry[]}
 */
export function entriesAt(index, { series, over, spread, smooth, isEach, format, phase = "train", prefix = "" }) {
  const { ranks } = series;
  const at = (/** @type {number} */ rank) => series.byRank.get(rank)?.[index] ?? null;
  const word = prefix + (ranks.length > 1 ? `${over} ` : "");
  const jitter = spread?.[index] ? ` ± ${format(spread[index])} jitter` : "";
  const line = smooth ? `, smooth ${format(smooth[index])}` : "";
  const { colour, dash } = PHASES[phase];
  const entry = { key: ALL, text: `${word}${format(series.all[index])}${jitter}${line}`, colour, isDashed: Boolean(dash) };
  if (ranks.length < 2) return [entry];
  if (isEach) {
    return [entry, ...ranks.map((rank) => ({ key: `r${rank}`, text: `r${rank} ${format(at(rank))}`, colour: rankColour(rank) }))];
  }
  const known = ranks.map(at).filter((value) => value !== null);
  const text = known.length ? `${format(Math.min(...known))}–${format(Math.max(...known))}` : "–";
  return [entry, { key: EACH, text: `ranks ${text}`, colour: "" }];
}

/**
 * The index of the value nearest to `x` in a sorted column.
 * @param {number[]} xs
 * @param {number} x
 */
export function nearestIndex(xs, x) {
  const low = Math.max(0, lastIndexWhere(xs.length, (i) => Number(xs[i]) <= x));
  return Number(xs[low + 1]) - x < x - Number(xs[low]) ? low + 1 : low;
}

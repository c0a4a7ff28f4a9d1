// The numbers of a job as they arrive (step, rank, value), converted to columns over shared steps, one per rank, and their x axes.

import { XScale } from "../core/x_scales.js";

/** @typedef {(number | null)[]} Column */

/** The positions of values: step and rank, and epoch and time if known. @typedef {{steps: ArrayLike<number>, ranks: ArrayLike<number>, epoch?: ArrayLike<number>, time?: ArrayLike<number>}} Positions */

/** The x values of steps on another axis. */
class Places {
  constructor() {
    /** @type {number[]} */
    this.values = []; // NaN if unknown
    this.first = NaN;
    this.isUseful = false; // at least two of them differ
  }

  /**
   * @param {number} row
   * @param {number} [value]
   */
  set(row, value = NaN) {
    this.values[row] = value;
    if (Number.isNaN(this.first)) this.first = value;
    else if (value !== this.first && !Number.isNaN(value)) this.isUseful = true;
  }
}

/** A metric over steps: a column per rank, one over all ranks, and those of the lowest and the highest rank. */
export class Series {
  constructor() {
    /** @type {"sum" | "mean"} */
    this.over = "mean"; // how ranks are combined
    /** @type {number[]} */
    this.steps = [];
    this.places = { epoch: new Places(), time: new Places() }; // of the steps
    this.count = 0; // values received, for the handshake
    /** @type {Map<number, Column>} */
    this.byRank = new Map();
    /** @type {Column} */
    this.all = [];
    /** @type {Column} */
    this.low = [];
    /** @type {Column} */
    this.high = [];
    this.dirtyFrom = 0;
  }

  /** Drops all values. */
  clear() {
    Object.assign(this, new Series(), { over: this.over });
  }

  /** Sets how ranks are combined. @param {"sum" | "mean"} over */
  combine(over) {
    if (over !== this.over) [this.over, this.dirtyFrom] = [over, 0];
  }

  /** The ranks seen, in order. */
  get ranks() {
    return [...this.byRank.keys()].sort((a, b) => a - b);
  }

  /** Whether any rank has a value. */
  get hasValues() {
    return [...this.byRank.values()].some((column) => column.some((value) => value !== null));
  }

  /**
   * Adds values `first`, `first + 1`, …; known ones are ignored.
   * @param {number} first
   * @param {Positions} positions
   * @param {ArrayLike<number>} values
   * @returns {boolean} false if values before `first` are missing
   */
  add(first, { steps, ranks, epoch, time }, values) {
    if (first > this.count) return false;
    for (let i = this.count - first; i < steps.length; i += 1) {
      const row = this.#row(Number(steps[i]));
      this.#set(row, Number(ranks[i]), Number(values[i]));
      this.places.epoch.set(row, epoch?.[i]);
      this.places.time.set(row, time?.[i]);
    }
    this.count = Math.max(this.count, first + steps.length);
    return true;
  }

  /**
   * Extends every column to all rows and updates those over all ranks; to be called before drawing.
   * A sum needs all ranks at a step, as in a saved figure; a mean needs any.
   */
  settle() {
    const { length } = this.steps;
    const columns = [...this.byRank.values()];
    for (const column of columns) while (column.length < length) column.push(null);
    for (let row = this.dirtyFrom; row < length; row += 1) {
      let [count, sum, low, high] = [0, 0, Infinity, -Infinity];
      for (const column of columns) {
        const value = column[row] ?? null;
        if (value === null) continue;
        [count, sum, low, high] = [count + 1, sum + value, Math.min(low, value), Math.max(high, value)];
      }
      const isKnown = count > 0 && (this.over === "mean" || count === columns.length);
      this.all[row] = isKnown ? (this.over === "sum" ? sum : sum / count) : null;
      [this.low[row], this.high[row]] = count ? [low, high] : [null, null];
    }
    this.all.length = this.low.length = this.high.length = length;
    this.dirtyFrom = length;
  }

  /**
   * The values over all ranks at these steps, which rise; null where there is none.
   * @param {number[]} steps
   * @returns {Column}
   */
  at(steps) {
    let row = 0;
    return steps.map((step) => {
      while (Number(this.steps[row]) < step) row += 1;
      return this.steps[row] === step ? (this.all[row] ?? null) : null;
    });
  }

  /**
   * @param {number} row
   * @param {number} rank
   * @param {number} value
   */
  #set(row, rank, value) {
    let column = this.byRank.get(rank);
    if (!column) {
      this.byRank.set(rank, (column = []));
      this.dirtyFrom = 0; // the sums so far do not include this rank
    }
    while (column.length < this.steps.length) column.push(null);
    column[row] = Number.isFinite(value) ? value : null;
    this.dirtyFrom = Math.min(this.dirtyFrom, row);
  }

  /** @param {number} step */
  #row(step) {
    let row = this.steps.length;
    while (row > 0 && /** @type {number} */ (this.steps[row - 1]) > step) row -= 1;
    if (row > 0 && this.steps[row - 1] === step) return row - 1;
    if (row === this.steps.length) this.steps.push(step);
    else this.#insert(row, step);
    return row;
  }

  /**
   * Inserts a row for a step that arrived late.
   * @param {number} row
   * @param {number} step
   */
  #insert(row, step) {
    this.steps.splice(row, 0, step);
    this.places.epoch.values.splice(row, 0, NaN);
    this.places.time.values.splice(row, 0, NaN);
    for (const column of this.byRank.values()) if (column.length > row) column.splice(row, 0, null);
    this.dirtyFrom = Math.min(this.dirtyFrom, row);
  }
}

/** The metrics of a job by name. */
export class JobNumbers {
  constructor() {
    this.generation = 0;
    /** @type {Map<string, Series>} */
    this.known = new Map();
  }

  /**
   * Sets the generation of what follows; a new one drops all values, because the log was truncated or they have moved.
   * @param {number} generation
   * @returns {boolean} whether it is a new one
   */
  begin(generation) {
    if (generation === this.generation) return false;
    this.generation = generation;
    for (const series of this.known.values()) series.clear();
    return true;
  }

  /** A metric, whose values may be yet to come. @param {string} name */
  of(name) {
    let series = this.known.get(name);
    if (!series) this.known.set(name, (series = new Series()));
    return series;
  }

  /** Number of values received of each metric. */
  get counts() {
    return Object.fromEntries([...this.known].map(([name, series]) => [name, series.count]));
  }
}

/**
 * The scales that a job's numbers allow, the one that suits them first.
 * @param {JobNumbers} points
 * @param {"step" | "epoch" | "order"} first
 * @returns {XScale[]}
 */
export function scalesOf(points, first) {
  const every = [...points.known.values()];
  const useful = /** @type {("epoch" | "time")[]} */ (["epoch", "time"]).flatMap((name) => scaleOf(every, name));
  if (first !== "epoch") return [new XScale(first), ...useful];
  const isOnePoint = every.every(({ steps }) => steps.length < 2); // of the first epoch
  if (!isOnePoint && useful[0]?.name !== first) return [countedScale(every), ...useful];
  return [mergedScale(every, first), ...useful.filter(({ name }) => name !== first)];
}

/**
 * The scale from the metric with the most steps, of those whose points have epochs or times; none without any.
 * @param {Series[]} every
 * @param {"epoch" | "time"} name
 */
function scaleOf(every, name) {
  const [longest] = every.filter(({ places }) => places[name].isUseful).sort((a, b) => b.steps.length - a.steps.length);
  return longest ? [new XScale(name, longest.steps, longest.places[name].values)] : [];
}

/** The scale of values that are all of one epoch: they are numbered from 1. @param {Series[]} every */
function countedScale(every) {
  const steps = [...new Set(every.flatMap(({ steps }) => steps))].sort((a, b) => a - b);
  return new XScale("order", steps, steps.map((_, row) => row + 1));
}

/**
 * The scale of a log without steps, whose points are numbered: its x values are collected from all metrics.
 * @param {Series[]} every
 * @param {"epoch"} name
 */
function mergedScale(every, name) {
  /** @type {Map<number, number>} */
  const xOf = new Map();
  for (const { places, steps } of every) steps.forEach((step, row) => xOf.set(step, xOf.get(step) ?? places[name].values[row] ?? NaN));
  const steps = [...xOf.keys()].sort((a, b) => a - b);
  return new XScale(name, steps, steps.map((step) => xOf.get(step) ?? NaN));
}

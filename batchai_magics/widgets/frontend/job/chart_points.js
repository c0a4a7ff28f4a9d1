// Chart points as they arrive (step, rank, values), converted to columns over shared steps, one per rank, and their x axes.

import { XScale } from "../core/x_scales.js";

/** @typedef {(number | null)[]} Column */

/** The values of one quantity: a column per rank, one over all ranks, and those of the lowest and the highest rank. */
export class Quantity {
  /** @param {"sum" | "mean"} over how ranks are combined */
  constructor(over) {
    this.over = over;
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

  /**
   * Sets how ranks are combined.
   * @param {"sum" | "mean"} over
   */
  combine(over) {
    if (over !== this.over) [this.over, this.dirtyFrom] = [over, 0];
  }

  /** Drops all values. */
  clear() {
    this.byRank.clear();
    [this.all, this.low, this.high] = [[], [], []];
    this.dirtyFrom = 0;
  }

  /** The ranks seen, in order. */
  get ranks() {
    return [...this.byRank.keys()].sort((a, b) => a - b);
  }

  /**
   * @param {number} row
   * @param {number} rank
   * @param {number} value
   * @param {number} length number of rows
   */
  set(row, rank, value, length) {
    let column = this.byRank.get(rank);
    if (!column) {
      this.byRank.set(rank, (column = []));
      this.dirtyFrom = 0; // sums so far lack this rank
    }
    while (column.length < length) column.push(null);
    column[row] = Number.isFinite(value) ? value : null;
    this.dirtyFrom = Math.min(this.dirtyFrom, row);
  }

  /**
   * Inserts a row for a step that arrived late.
   * @param {number} row
   */
  insert(row) {
    for (const column of this.byRank.values()) if (column.length > row) column.splice(row, 0, null);
    this.dirtyFrom = Math.min(this.dirtyFrom, row);
  }

  /** Whether any rank has a value. */
  get hasValues() {
    return [...this.byRank.values()].some((column) => column.some((value) => value !== null));
  }

  /**
   * Extends every column to `length` rows and updates those over all ranks.
   * A sum needs all ranks at a step, as in a saved figure; a mean needs any.
   * @param {number} length
   */
  settle(length) {
    for (const column of this.byRank.values()) while (column.length < length) column.push(null);
    const columns = [...this.byRank.values()];
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
}

/** Where steps are on another x axis. */
class Places {
  constructor() {
    /** @type {number[]} */
    this.values = []; // NaN if unknown
    this.first = NaN;
    this.isUseful = false; // they tell steps apart
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

/** Quantities over the same steps. */
export class Table {
  /** @param {...Quantity} quantities */
  constructor(...quantities) {
    this.quantities = quantities;
    /** @type {number[]} */
    this.steps = [];
    this.places = { epoch: new Places(), time: new Places() }; // of the steps
    this.count = 0; // points received, for the handshake
  }

  /** Drops all points. */
  clear() {
    this.steps = [];
    this.places = { epoch: new Places(), time: new Places() };
    this.count = 0;
    for (const quantity of this.quantities) quantity.clear();
  }

  /**
   * Adds points `first`, `first + 1`, …; known ones are ignored.
   * @param {number} first
   * @param {ArrayLike<number>} steps
   * @param {ArrayLike<number>} ranks
   * @param {ArrayLike<number>[]} columns the values of each quantity
   * @param {{epoch?: ArrayLike<number>, time?: ArrayLike<number>}} [places]
   * @returns {boolean} false if points before `first` are missing
   */
  add(first, steps, ranks, columns, { epoch, time } = {}) {
    if (first > this.count) return false;
    for (let i = this.count - first; i < steps.length; i += 1) {
      const row = this.#row(Number(steps[i]));
      this.quantities.forEach((quantity, k) => {
        quantity.set(row, Number(ranks[i]), Number(columns[k]?.[i]), this.steps.length);
      });
      this.places.epoch.set(row, epoch?.[i]);
      this.places.time.set(row, time?.[i]);
    }
    this.count = Math.max(this.count, first + steps.length);
    return true;
  }

  /** Updates all quantities; to be called before drawing. */
  settle() {
    for (const quantity of this.quantities) quantity.settle(this.steps.length);
  }

  /** @param {number} step */
  #row(step) {
    let row = this.steps.length;
    while (row > 0 && /** @type {number} */ (this.steps[row - 1]) > step) row -= 1;
    if (row > 0 && this.steps[row - 1] === step) return row - 1;
    if (row === this.steps.length) this.steps.push(step);
    else {
      this.steps.splice(row, 0, step);
      this.places.epoch.values.splice(row, 0, NaN);
      this.places.time.values.splice(row, 0, NaN);
      for (const quantity of this.quantities) quantity.insert(row);
    }
    return row;
  }
}

/** The step lines: images/sec, loss and jitter. Every other number of the log has a table of its own. */
export class PointTable extends Table {
  constructor() {
    const [rates, losses, jitters] = [new Quantity("sum"), new Quantity("mean"), new Quantity("sum")];
    super(rates, losses, jitters);
    this.rates = rates;
    this.losses = losses;
    this.jitters = jitters;
    this.generation = 0;
    /** @type {Map<string, ValueTable>} */
    this.others = new Map();
  }

  /**
   * Sets the generation of what follows; a new one drops all points, because the log was truncated.
   * @param {number} generation
   */
  begin(generation) {
    if (generation === this.generation) return;
    this.generation = generation;
    this.clear();
    for (const table of this.others.values()) table.clear();
  }

  /**
   * The table of another number.
   * @param {string} name
   */
  other(name) {
    let table = this.others.get(name);
    if (!table) this.others.set(name, (table = new ValueTable()));
    return table;
  }

  /** Number of values received of each other quantity. */
  get counts() {
    return Object.fromEntries([...this.others].map(([name, table]) => [name, table.count]));
  }
}

/** One number over steps. */
class ValueTable extends Table {
  constructor() {
    const values = new Quantity("mean");
    super(values);
    this.values = values;
  }
}

/**
 * The scales that a job's numbers allow, the one that suits them first.
 * @param {PointTable} points
 * @param {"step" | "epoch" | "order"} first
 * @returns {XScale[]}
 */
export function scalesOf(points, first) {
  const tables = [points, ...points.others.values()];
  const useful = /** @type {("epoch" | "time")[]} */ (["epoch", "time"]).flatMap((name) => scaleOf(tables, name));
  if (first === "order") return [new XScale(first), ...useful];
  if (first === "step" || first !== useful[0]?.name) return [new XScale("step"), ...useful];
  return [mergedScale(tables, first), ...useful.slice(1)];
}

/**
 * The scale that the most points tell, if any.
 * @param {Table[]} tables
 * @param {"epoch" | "time"} name
 */
function scaleOf(tables, name) {
  const [longest] = tables.filter(({ places }) => places[name].isUseful).sort((a, b) => b.steps.length - a.steps.length);
  return longest ? [new XScale(name, longest.steps, longest.places[name].values)] : [];
}

/**
 * The scale of a log without steps, whose points are numbered: each table tells some of the places.
 * @param {Table[]} tables
 * @param {"epoch"} name
 */
function mergedScale(tables, name) {
  /** @type {Map<number, number>} */
  const known = new Map();
  for (const { places, steps } of tables) steps.forEach((step, row) => known.set(step, known.get(step) ?? places[name].values[row] ?? NaN));
  const steps = [...known.keys()].sort((a, b) => a - b);
  return new XScale(name, steps, steps.map((step) => known.get(step) ?? NaN));
}

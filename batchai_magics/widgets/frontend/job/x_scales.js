// The x axes of a job's charts: steps, epochs or time. Points have steps; a scale converts them.

import { countAxis, EPOCH_AXIS, TIME_AXIS } from "../core/chart_axes.js";

/** @typedef {import("../core/chart_axes.js").XAxis} XAxis */
/** @typedef {import("./chart_points.js").PointTable} PointTable */
/** @typedef {import("./chart_points.js").Table} Table */

/** @typedef {"step" | "epoch" | "time"} XName */

const AXES = { step: countAxis("step"), epoch: EPOCH_AXIS, time: TIME_AXIS };

/** Converts steps to values of an x axis, linearly between and beyond the steps for which they are known. */
export class XScale {
  /**
   * @param {XName} name
   * @param {number[]} [steps] in order
   * @param {number[]} [known] at these steps; NaN where it is not
   */
  constructor(name, steps = [], known = []) {
    this.name = name;
    this.axis = AXES[name];
    /** @type {number[]} */
    this.steps = [];
    /** @type {number[]} */
    this.known = [];
    let highest = -Infinity;
    for (let i = 0; i < steps.length; i += 1) {
      const value = known[i] ?? NaN;
      if (!(value > highest)) continue; // x only increases; where an epoch goes on, steps are spread over it
      this.steps.push(/** @type {number} */ (steps[i]));
      this.known.push((highest = value));
    }
  }

  /** Whether it tells steps apart. */
  get isUseful() {
    return this.name === "step" || this.steps.length > 1;
  }

  /**
   * The x values of steps in order.
   * @param {number[]} steps
   * @returns {number[]}
   */
  of(steps) {
    if (this.name === "step") return steps;
    let segment = 0;
    return steps.map((step) => {
      while (segment < this.steps.length - 2 && Number(this.steps[segment + 1]) <= step) segment += 1;
      return this.#between(segment, step);
    });
  }

  /** @type {(segment: number, step: number) => number} */
  #between(segment, step) {
    const [from = 0, to = from] = [this.steps[segment], this.steps[segment + 1]];
    const [low = 0, high = low] = [this.known[segment], this.known[segment + 1]];
    return to === from ? low : Math.max(0, low + ((high - low) * (step - from)) / (to - from));
  }
}

/**
 * The scales that a job's numbers allow, the one that suits them first.
 * @param {PointTable} points
 * @param {"step" | "epoch"} first
 * @returns {XScale[]}
 */
export function scalesOf(points, first) {
  const tables = [points, ...points.others.values()];
  const others = /** @type {("epoch" | "time")[]} */ (["epoch", "time"]).map((name) => scaleOf(tables, name));
  const useful = others.filter((scale) => scale.isUseful);
  return first === useful[0]?.name ? useful : [new XScale("step"), ...useful];
}

/**
 * The scale that the most points tell.
 * @param {Table[]} tables
 * @param {"epoch" | "time"} name
 */
function scaleOf(tables, name) {
  const longest = tables.reduce((best, table) => (isTold(table, name) && table.steps.length > (best?.steps.length ?? 0) ? table : best), /** @type {Table | null} */ (null));
  return new XScale(name, longest?.steps, longest?.places[name]);
}

/** @type {(table: Table, name: "epoch" | "time") => boolean} */
function isTold({ places }, name) {
  return places[name].some((value) => !Number.isNaN(value));
}

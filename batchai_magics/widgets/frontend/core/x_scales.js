// The x axes of charts: steps, epochs or time. Points have steps; a scale converts them.

import { countAxis, EPOCH_AXIS, TIME_AXIS } from "./chart_axes.js";

/** @typedef {import("./chart_axes.js").XAxis} XAxis */

/** @typedef {"step" | "epoch" | "order" | "time"} XName */

const AXES = { step: countAxis("step"), epoch: EPOCH_AXIS, order: countAxis("value"), time: TIME_AXIS };

/** Converts steps to values of an x axis, linearly between and beyond the steps for which they are known. */
export class XScale {
  /**
   * @param {XName} name
   * @param {number[]} [steps] in order
   * @param {number[]} [places] of these steps; NaN where it is not known
   */
  constructor(name, steps = [], places = []) {
    this.name = name;
    this.axis = AXES[name];
    this.points = { steps, places };
    /** @type {number[] | null} */
    this.steps = null; // the steps to interpolate between, found when they are needed
    /** @type {number[]} */
    this.known = [];
  }

  /** The x values of steps in order. @type {(steps: number[]) => number[]} */
  of(steps) {
    if (this.name === "step" || (this.name === "order" && !this.points.steps.length)) return steps;
    const knots = this.#knots();
    let segment = 0;
    return steps.map((step) => {
      while (segment < knots.length - 2 && Number(knots[segment + 1]) <= step) segment += 1;
      return this.#between(knots, segment, step);
    });
  }

  /** The steps where x increases: where an epoch goes on, or a clock went back, steps are spread. */
  #knots() {
    if (this.steps) return this.steps;
    this.steps = [];
    let highest = -Infinity;
    for (let i = 0; i < this.points.steps.length; i += 1) {
      const value = this.points.places[i] ?? NaN;
      if (!(value > highest)) continue;
      this.steps.push(/** @type {number} */ (this.points.steps[i]));
      this.known.push((highest = value));
    }
    return this.steps;
  }

  /** @type {(knots: number[], segment: number, step: number) => number} */
  #between(knots, segment, step) {
    const [from = 0, to = from] = [knots[segment], knots[segment + 1]];
    const [low = 0, high = low] = [this.known[segment], this.known[segment + 1]];
    return to === from ? low : Math.max(0, low + ((high - low) * (step - from)) / (to - from));
  }
}

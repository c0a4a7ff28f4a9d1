// The axes of charts: which x values they have, where their ticks are, and as many digits as they need.

import uPlot from "uplot"; // for its types
import { duration, quantity } from "./format.js";

/**
 * An x axis: its label, the possible distances between ticks, the texts of ticks, and those of the readout.
 * @typedef {{label: string, increments: number[], tick: (x: number, increment: number, largest: number) => string, words: (x: number) => string}} XAxis
 */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS = /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]);
const SHORTENED = 1e4; // values from which on tick labels have units
const READ_SHORTENED = 1e7; // values from which on readouts have units
const TINY = 1e-3; // values below which both have exponents
const MAX_UNIT_DECIMALS = 2; // 12.25k, but 12,251
const TICK_GAP_PX = 18; // between labels of the x axis
const MIN_X_SPACE_PX = 60;
const MIN_SIZE_PX = 52; // of the y axis with its gap: equal in all charts unless their labels are long
const MIN_RIGHT_PX = 12;
const READ_STEPS = 500; // values of the y axis that the readout distinguishes
const READ_DIGITS = 4; // of the largest value in the readout, at least

const LOGARITHMIC = 3; // uPlot's number for such scales

const DECIMAL = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((first) => first * 10 ** power)).flat();
const FRACTIONS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const SECONDS = [1, 2, 5, 10, 15, 30];
const TIMES = [...SECONDS, ...SECONDS.map((x) => x * MINUTE), HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, ...DECIMAL.map((x) => x * DAY)];

/** An axis of counts, labelled with what they count. @type {(label: string) => XAxis} */
export function countAxis(label) {
  return { label, increments: DECIMAL, tick: tickText, words: (x) => `${label} ${x}` };
}

/** @type {XAxis} */
export const EPOCH_AXIS = {
  label: "epoch",
  increments: [...FRACTIONS, ...DECIMAL],
  tick: tickText,
  words: (x) => `epoch ${Number.isInteger(x) ? x : x.toFixed(2)}`,
};

/** Seconds since the first number. @type {XAxis} */
export const TIME_AXIS = { label: "time since the first number", increments: TIMES, tick: timeText, words: (x) => `after ${duration(x)}` };

/**
 * The label of a tick, with the decimals that its distance to the next one needs.
 * @param {number} tick
 * @param {number} increment
 * @param {number} largest the largest absolute value among the ticks
 */
export function tickText(tick, increment, largest) {
  if (tick === 0) return "0";
  if (largest < TINY || largest >= 1e15) return Number(tick.toPrecision(6)).toExponential().replace("e+", "e");
  const unit = UNITS.find(([size]) => largest >= Math.max(size, SHORTENED));
  if (unit) {
    const decimals = decimalsOf(increment / unit[0]);
    if (decimals <= MAX_UNIT_DECIMALS) return `${fixed(tick / unit[0], decimals)}${unit[1]}`;
  }
  return fixed(tick, decimalsOf(increment));
}

/**
 * A value with as many digits as distinguish it on an axis from `min` to `max`, and more if these are all 0.
 * @param {number | null | undefined} value
 * @param {number} min
 * @param {number} max
 */
export function readText(value, min, max) {
  const range = max - min;
  if (value === null || value === undefined || !Number.isFinite(value) || !(range > 0)) return quantity(value);
  const largest = Math.max(Math.abs(min), Math.abs(max));
  const resolution = Math.min(range / READ_STEPS, 10 ** (Math.floor(Math.log10(largest)) - READ_DIGITS + 1));
  if (largest < TINY) {
    const digits = Math.ceil(Math.log10(Math.abs(value || largest)) - Math.log10(resolution));
    return value.toExponential(Math.max(1, Math.min(6, digits)));
  }
  const [size, name] = (largest >= READ_SHORTENED && UNITS.find(([each]) => largest >= each)) || [1, ""];
  const text = fixed(value / size, Math.max(0, Math.min(9, Math.ceil(-Math.log10(resolution / size)))));
  return value === 0 || Number.parseFloat(text) ? `${text}${name}` : quantity(value); // never 0 unless it is
}

/**
 * The options of an x axis whose labels neither overlap nor leave the chart.
 * @param {XAxis} axis
 * @returns {uPlot.Axis}
 */
export function xOptions(axis) {
  return {
    size: 22,
    label: axis.label,
    labelSize: axis.label ? 14 : 0,
    labelGap: 0,
    incrs: axis.increments,
    space: (plot, _, min, max) => Math.max(MIN_X_SPACE_PX, TICK_GAP_PX + Math.max(...ends(axis, min, max).map((text) => textWidth(plot, text)))),
    values: (_, ticks, __, ___, increment) => ticks.map((tick) => axis.tick(tick, increment, Math.abs(ticks[ticks.length - 1] ?? 0))),
  };
}

/** The options of a y axis that is as wide as its labels. @returns {uPlot.Axis} */
export function yOptions() {
  return {
    space: 26,
    size: (plot, labels) => Math.max(MIN_SIZE_PX, ...(labels ?? []).map((label) => Math.ceil(textWidth(plot, label ?? "")) + 16)),
    values: (plot, ticks, __, ___, increment) => {
      const known = /** @type {(number | null)[]} */ (ticks);
      const isLog = plot.scales.y?.distr === LOGARITHMIC;
      const largest = Math.max(...known.map((tick) => Math.abs(tick ?? 0)));
      return known.map((tick) => (tick === null ? "" : isLog ? tickText(tick, tick, Math.abs(tick)) : tickText(tick, increment, largest)));
    },
  };
}

/**
 * The room at the right of a chart: half of its last label has to fit.
 * @param {XAxis} axis
 * @returns {(plot: uPlot) => number}
 */
export function rightPadding(axis) {
  return (plot) => {
    const { min, max } = plot.scales.x ?? {};
    const label = ends(axis, min ?? 0, max ?? 0).pop() ?? "";
    return Math.max(MIN_RIGHT_PX, Math.ceil(textWidth(plot, label) / 2) + 4);
  };
}

/**
 * The labels that the two ends of an axis could have.
 * @param {XAxis} axis
 * @param {number} min
 * @param {number} max
 */
function ends(axis, min, max) {
  const increment = axis.increments.find((each) => each * 12 >= max - min) ?? 1;
  return [min, max].map((x) => axis.tick(Math.round(x / increment) * increment, increment, max));
}

/**
 * @param {uPlot} plot
 * @param {string} text
 */
function textWidth(plot, text) {
  const { ctx } = plot;
  const font = plot.axes[0]?.font;
  ctx.save();
  if (font) ctx.font = /** @type {any} */ (font)[0] ?? String(font); // scaled by uPlot to the pixels of the screen
  const { width } = ctx.measureText(text);
  ctx.restore();
  return width / (devicePixelRatio || 1);
}

/** @type {(seconds: number, increment: number) => string} */
function timeText(seconds, increment) {
  return increment >= DAY ? `${Math.round(seconds / DAY)} d` : duration(seconds);
}

/** The number of decimals of a round number. @param {number} increment */
function decimalsOf(increment) {
  const [digits = "", exponent] = Number(increment.toPrecision(6)).toExponential().split("e");
  return Math.max(0, (digits.split(".")[1]?.length ?? 0) - Number(exponent));
}

/** @type {(value: number, decimals: number) => string} */
function fixed(value, decimals) {
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

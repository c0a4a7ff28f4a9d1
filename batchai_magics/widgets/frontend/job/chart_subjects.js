// Which charts a job has, and the legend's values at a step.

import { ACCENT, rankColour } from "../core/chart_style.js";
import { error, quantity } from "../core/format.js";

/** @typedef {import("./chart_points.js").PointTable} PointTable */
/** @typedef {import("./step_chart.js").Subject} Subject */
/** @typedef {import("../core/chart_frame.js").Entry} Entry */
/** @typedef {import("./chart_points.js").Quantity} Quantity */

// Names of rates in other programs, preferred ones first.
const RATES = [/^images_per_sec/, /^samples_per_sec$/, /^total_samples_per_sec$/, /^(?!eval|mean|spread).*(_per_|\/)sec$/];
const ONCE = /^(mean_|spread_|devices$)/; // reported once for all steps, hence not a line over steps
const LOSS = /(^|[_\/ -])loss$/;

/**
 * The charts of a job's numbers: rates first, then losses, then the rest in order of arrival.
 * @param {PointTable} points
 * @returns {Subject[]}
 */
export function subjectsOf(points) {
  const names = [...points.others.keys()].filter((name) => !ONCE.test(name));
  const rate = points.count ? undefined : rateAmong(names);
  const rest = names.filter((name) => name !== rate);
  const losses = rest.filter((name) => LOSS.test(name)).sort((a, b) => Number(b === "loss") - Number(a === "loss"));
  const others = rest.filter((name) => !LOSS.test(name));
  const steps = points.count ? stepLines(points) : [];
  return [...steps, ...[...(rate === undefined ? [] : [rate]), ...losses, ...others].map((name) => other(points, name, name === rate))];
}

/** @param {string[]} names */
export function rateAmong(names) {
  for (const rate of RATES) {
    const name = names.find((each) => rate.test(each));
    if (name !== undefined) return name;
  }
  return undefined;
}

/**
 * The charts of tf_cnn_benchmarks' step lines.
 * @param {PointTable} table
 * @returns {Subject[]}
 */
function stepLines(table) {
  const { rates, jitters, losses } = table;
  return [
    { title: "images/sec", table, values: rates, band: jitters, over: "total", fromZero: true, hasWarmUp: true },
    { title: "loss", table, values: losses, over: "mean" },
  ];
}

/**
 * @param {PointTable} points
 * @param {string} name
 * @param {boolean} fromZero
 * @returns {Subject}
 */
function other(points, name, fromZero) {
  const table = points.other(name);
  const over = table.values.over === "sum" ? "total" : "mean";
  return { title: name, table, values: table.values, over, fromZero };
}

export const ALL = "all";
export const EACH = "ranks";
const MAX_RANKS = 4;
const WORDS_PX = 224; // width of the legend without its ranks; below, per rank
const RANK_PX = 74;
const SMOOTH_PX = 100; // of the smoothed line's value

/**
 * The entries of the legend.
 * @param {number} index of the step
 * @param {{values: Quantity, over: string, band?: Quantity, smooth?: (number | null)[], isEach: boolean}} what
 *   `isEach`: show every rank; `smooth`: the smoothed line over all ranks
 * @returns {Entry[]}
 */
export function entriesAt(index, { values, over, band, smooth, isEach }) {
  const { ranks } = values;
  const at = (/** @type {number} */ rank) => values.byRank.get(rank)?.[index] ?? null;
  const word = ranks.length > 1 ? `${over} ` : "";
  const spread = band?.all[index] ? ` ± ${error(band.all[index], values.all[index])} jitter` : "";
  const line = smooth ? `, smooth ${quantity(smooth[index])}` : "";
  /** @type {Entry[]} */
  const entries = [{ key: ALL, text: `${word}${quantity(values.all[index])}${spread}${line}`, colour: ACCENT }];
  if (ranks.length < 2) return entries;
  if (isEach) {
    ranks.forEach((rank) => entries.push({ key: `r${rank}`, text: `r${rank} ${quantity(at(rank))}`, colour: rankColour(rank) }));
    return entries;
  }
  const known = ranks.map(at).filter((value) => value !== null);
  const text = known.length ? `${quantity(Math.min(...known))}–${quantity(Math.max(...known))}` : "–";
  return [...entries, { key: EACH, text: `ranks ${text}`, colour: "" }];
}

/**
 * Whether a legend has room for every rank.
 * @param {number} ranks number of ranks
 * @param {number} width in pixels
 * @param {boolean} isSmooth whether it also shows the smoothed line
 */
export function hasRoomFor(ranks, width, isSmooth) {
  return ranks <= MAX_RANKS && width >= WORDS_PX + ranks * RANK_PX + (isSmooth ? SMOOTH_PX : 0);
}

/**
 * The index of a column's latest value; null if it has none.
 * @param {(number | null)[]} column
 */
export function lastIndex(column) {
  for (let i = column.length - 1; i >= 0; i -= 1) if (column[i] !== null) return i;
  return null;
}

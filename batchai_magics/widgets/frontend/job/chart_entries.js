// The legend of a chart over steps: its values at one point, as many as there is room for.

import { PHASES, rankColour } from "../core/chart_style.js";

/** @typedef {import("../core/chart_legend.js").Entry} Entry */
/** @typedef {import("../core/chart_style.js").Phase} Phase */
/** @typedef {import("./chart_points.js").Quantity} Quantity */
/** @typedef {import("./chart_points.js").Column} Column */
/** @typedef {(value: number | null | undefined) => string} Format */

export const ALL = "all";
export const EACH = "ranks";

export const MAX_NAMED_RANKS = 4; // of more, the legend shows the range

/**
 * The entries of the main line and its ranks.
 * @param {number} index of the step
 * @param {{values: Quantity, over: string, band?: Quantity, smooth?: Column, isEach: boolean, format: Format, phase?: Phase, prefix?: string}} what
 *   `isEach`: show every rank; `smooth`: the smoothed line over all ranks; `prefix`: words before the value
 * @returns {Entry[]}
 */
export function entriesAt(index, { values, over, band, smooth, isEach, format, phase = "train", prefix = "" }) {
  const { ranks } = values;
  const at = (/** @type {number} */ rank) => values.byRank.get(rank)?.[index] ?? null;
  const word = prefix + (ranks.length > 1 ? `${over} ` : "");
  const spread = band?.all[index] ? ` ± ${format(band.all[index])} jitter` : "";
  const line = smooth ? `, smooth ${format(smooth[index])}` : "";
  const { colour, dash } = PHASES[phase];
  const entry = { key: ALL, text: `${word}${format(values.all[index])}${spread}${line}`, colour, isDashed: Boolean(dash) };
  if (ranks.length < 2) return [entry];
  if (isEach) {
    return [entry, ...ranks.map((rank) => ({ key: `r${rank}`, text: `r${rank} ${format(at(rank))}`, colour: rankColour(rank) }))];
  }
  const known = ranks.map(at).filter((value) => value !== null);
  const text = known.length ? `${format(Math.min(...known))}–${format(Math.max(...known))}` : "–";
  return [entry, { key: EACH, text: `ranks ${text}`, colour: "" }];
}

/**
 * The index of a column's latest value; null if it has none.
 * @param {Column} column
 */
export function lastIndex(column) {
  for (let i = column.length - 1; i >= 0; i -= 1) if (column[i] !== null) return i;
  return null;
}

/**
 * The index of the value nearest to `x` in a sorted column.
 * @param {number[]} xs
 * @param {number} x
 */
export function nearestIndex(xs, x) {
  let [low, high] = [0, xs.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (Number(xs[middle]) <= x) low = middle;
    else high = middle;
  }
  return high > low && Number(xs[high]) - x < x - Number(xs[low]) ? high : low;
}

// The values of a chart at one step, in words: over all ranks, and of each rank or, of many, the range.

import { ACCENT, rankColour } from "../../core/chart_style.js";
import { error, quantity } from "../../core/format.js";

/** @typedef {import("../../core/chart_frame.js").Entry} Entry */
/** @typedef {import("./points.js").Quantity} Quantity */

export const ALL = "all";
export const EACH = "ranks";
const MOST_RANKS = 4;
const WORDS_PX = 224; // that the legend needs beside its ranks, and for each of them
const RANK_PX = 74;
const SMOOTH_PX = 100; // and for the value of the smoother line

/**
 * The entries of the legend.
 * @param {number} index of the step
 * @param {{values: Quantity, over: string, band?: Quantity, smooth?: (number | null)[], isEach: boolean}} what
 *   `isEach`: there is room for each rank; `smooth`: the smoother line over all of them
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
 * Whether a legend has room for each rank.
 * @param {number} ranks how many there are
 * @param {number} width in pixels
 * @param {boolean} isSmooth whether it also tells of the smoother line
 */
export function hasRoomFor(ranks, width, isSmooth) {
  return ranks <= MOST_RANKS && width >= WORDS_PX + ranks * RANK_PX + (isSmooth ? SMOOTH_PX : 0);
}

/**
 * Where the latest value of a column is; null where there is none.
 * @param {(number | null)[]} column
 */
export function lastIndex(column) {
  for (let i = column.length - 1; i >= 0; i -= 1) if (column[i] !== null) return i;
  return null;
}

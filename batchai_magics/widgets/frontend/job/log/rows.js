// The rows of a log: lines, and gaps where bytes are not known.

import { size } from "../../core/format.js";

/** @typedef {import("./ranks.js").RankAt} RankAt */
/** @typedef {{start: number, end: number, text: string, rank?: number, isOpen?: boolean}} Line  `isOpen`: no newline yet */
/** @typedef {{start: number, end: number, isGap: true, lines: number | null}} Gap  bytes that were not sent */
/** @typedef {Line | Gap} Row */

export const NEWLINE = 10;
const RETURN = 13;
const MAX_TEXT = 4000; // bytes of a line that are kept: a longer one is cut, and says so
const MAX_OPEN_BYTES = 1 << 16; // of a line without an end yet
const decoder = new TextDecoder();

/**
 * @param {Row} row
 * @returns {row is Gap}
 */
export const isGap = (row) => "isGap" in row;

/**
 * @param {number} start
 * @param {number} end
 * @returns {Gap[]}
 */
export function gapRow(start, end) {
  return end > start ? [{ start, end, isGap: true, lines: null }] : [];
}

/**
 * @param {number} start
 * @param {Uint8Array} bytes
 * @param {RankAt} [rankAt]
 * @returns {Line[]}
 */
export function lineRows(start, bytes, rankAt) {
  /** @type {Line[]} */
  const rows = [];
  for (let from = 0; from < bytes.length; ) {
    const newline = bytes.indexOf(NEWLINE, from);
    const to = newline < 0 ? bytes.length : newline + 1;
    rows.push({ start: start + from, end: start + to, text: textOf(bytes.subarray(from, to)), ...rankPart(rankAt?.(start + from)) });
    from = to;
  }
  return rows;
}

/** @param {number | undefined} rank */
export function rankPart(rank) {
  return rank === undefined || rank < 0 ? {} : { rank };
}

/**
 * One gap in place of rows, knowing their number where it was known.
 * @param {Row[]} rows
 * @returns {Gap[]}
 */
export function merged(rows) {
  const [first, last] = [rows[0], rows[rows.length - 1]];
  if (!first || !last) return [];
  /** @type {number | null} */
  let lines = 0;
  for (const row of rows) {
    if (!isGap(row)) lines = lines === null ? null : lines + 1;
    else lines = lines === null || row.lines === null ? null : lines + row.lines;
  }
  return [{ start: first.start, end: last.end, isGap: true, lines }];
}

/**
 * @param {Uint8Array} bytes one line, with or without its end
 * @param {number} [total] how long the line is, if `bytes` is not all of it
 */
export function textOf(bytes, total = bytes.length) {
  const hasEnd = bytes[bytes.length - 1] === NEWLINE;
  let to = hasEnd ? bytes.length - 1 : bytes.length;
  if (hasEnd && bytes[to - 1] === RETURN) to -= 1;
  // Of a long line that was overwritten again and again, only the newest state is of interest.
  const from = to > MAX_TEXT ? bytes.lastIndexOf(RETURN, to - 1) + 1 : 0;
  const text = decoder.decode(bytes.subarray(from, Math.min(to, from + MAX_TEXT)));
  return to - from <= MAX_TEXT ? text : `${text} … ${size(total - MAX_TEXT)} more in this line`;
}

/**
 * @param {Uint8Array} first
 * @param {Uint8Array} second
 */
export function joined(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

/** @param {Uint8Array} bytes an unfinished line: what a terminal still shows, and never too much */
export function bounded(bytes) {
  if (bytes.length <= MAX_OPEN_BYTES) return bytes;
  const after = bytes.lastIndexOf(RETURN);
  return after > 0 ? bytes.slice(after).slice(0, MAX_OPEN_BYTES) : bytes.slice(0, MAX_OPEN_BYTES);
}

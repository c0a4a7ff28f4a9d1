// The rows of a log: lines with their ranks, and gaps where bytes have not been loaded.

import { lastIndexWhere, size } from "../core/format.js";

export const MERGED = "/output"; // stdout merged with stderr; no file of a job can have this name
const STDERR = 1 << 20; // the kernel adds this, plus one, to the rank of bytes of stderr
const TAG = /^\[(?:[^[\]\s@]{1,64}@)?(?:\d+,)?(\d{1,6})\]<std(?:out|err|diag)>:/;

/** @typedef {(offset: number) => number} RankAt  the rank that wrote a byte; -1 if unknown */

/**
 * Decodes pairs of a byte (relative to `offset`) and the rank that wrote from there on.
 * @param {number} offset
 * @param {Int32Array} pairs
 * @returns {RankAt}
 */
export function ranksFrom(offset, pairs) {
  return (at) => {
    const last = lastIndexWhere(pairs.length / 2, (i) => Number(pairs[2 * i]) <= at - offset);
    return last < 0 ? -1 : Number(pairs[2 * last + 1]);
  };
}

/** The rank of a line, or -1. @param {{text: string, rank?: number}} line */
export function rankOf({ text, rank = -1 }) {
  const tag = TAG.exec(text);
  if (tag) return Number(tag[1]);
  return rank < STDERR ? rank : rank - STDERR - 1;
}

/** Whether a line of the merged log is of stderr. @param {{rank?: number}} line */
export function isOfStderr({ rank = -1 }) {
  return rank >= STDERR;
}

/** The rank of a line of stderr whose writer is unknown. */
export const OF_STDERR = STDERR;

/** @typedef {{name: string, at: number}} Position  a step or an epoch */
/** @typedef {{start: number, end: number, text: string, rank?: number, isOpen?: boolean, isRecord?: true, position?: Position}} Line
 *   `isOpen`: it has no newline yet; `isRecord`: log() wrote it; `position`: that of a record */
/** @typedef {{start: number, end: number, isGap: true, lines: number | null}} Gap  bytes that were not sent */
/** @typedef {{start: number, end: number, isFold: true, count: number, words: string, isUnfolded: boolean}} Fold
 *   a row in place of lines of log(), or, unfolded, above them */
/** @typedef {Line | Gap} Row */
/** @typedef {Row | Fold} ShownRow */

export const NEWLINE = 10;
const RETURN = 13;
const MAX_TEXT = 4000; // bytes per line; a longer one is truncated with a note
const MAX_OPEN_BYTES = 1 << 16; // of an unterminated line
const RECORD = /^\{"time": \d+(?:\.\d+)?, (?:"rank": \d+, )?"(?:step|epoch|params)": /; // what log() writes
const POSITION = /"(step|epoch)": (\d+)/;
const decoder = new TextDecoder();

/** @type {(row: ShownRow) => row is Gap} */
export const isGap = (row) => "isGap" in row;

/** @type {(row: ShownRow) => row is Fold} */
export const isFold = (row) => "isFold" in row;

/** @type {(start: number, end: number) => Gap[]} */
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
    rows.push(line(start + from, start + to, textOf(bytes.subarray(from, to)), rankAt?.(start + from)));
    from = to;
  }
  return rows;
}

/**
 * @param {number} start
 * @param {number} end
 * @param {string} text
 * @param {number} [rank]
 * @returns {Line}
 */
export function line(start, end, text, rank = -1) {
  const isRecord = text.startsWith('{"time": ', tagEnd(text)) && RECORD.test(text.slice(tagEnd(text)));
  return { start, end, text, ...(rank < 0 ? {} : { rank }), ...(isRecord ? { isRecord, ...positionOf(text) } : {}) };
}

/** @type {(text: string) => {position?: Position}} */
function positionOf(text) {
  const [, name, at] = POSITION.exec(text) ?? [];
  return name === undefined ? {} : { position: { name, at: Number(at) } };
}

/** Where a line's tag ends. @param {string} text */
function tagEnd(text) {
  return text.startsWith("[") ? (TAG.exec(text)?.[0].length ?? 0) : 0;
}

/** Replaces rows with one gap, with their number if known. @type {(rows: Row[]) => Gap[]} */
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
 * @param {Uint8Array} bytes one line, with or without newline
 * @param {number} [total] length of the line, if `bytes` is only a part
 */
export function textOf(bytes, total = bytes.length) {
  const hasEnd = bytes[bytes.length - 1] === NEWLINE;
  let to = hasEnd ? bytes.length - 1 : bytes.length;
  if (hasEnd && bytes[to - 1] === RETURN) to -= 1;
  // Of a long line that was overwritten repeatedly, only the latest state matters.
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

/** @param {Uint8Array} bytes an unterminated line, reduced to what a terminal shows, within the limit */
export function bounded(bytes) {
  if (bytes.length <= MAX_OPEN_BYTES) return bytes;
  const after = bytes.lastIndexOf(RETURN);
  return after > 0 ? bytes.slice(after).slice(0, MAX_OPEN_BYTES) : bytes.slice(0, MAX_OPEN_BYTES);
}

// The loaded lines of one log file in file order, with gaps for those not loaded.

import { lastIndexWhere } from "../core/format.js";
import { LogFolds } from "./log_folds.js";
import { bounded, gapRow, isGap, joined, line, lineRows, merged, NEWLINE, OF_STDERR, textOf } from "./log_rows.js";

/** @typedef {import("./log_rows.js").RankAt} RankAt */
/** @typedef {import("./log_rows.js").Line} Line */
/** @typedef {import("./log_rows.js").Gap} Gap */
/** @typedef {import("./log_rows.js").Row} Row */
/** @typedef {import("./log_rows.js").ShownRow} ShownRow */

export class LogDocument {
  /**
   * @param {number | null} [rank] restricts the document to this rank's lines
   * @param {() => string} [copies] what precedes the user's own paths, as an expression
   * @param {string} [file]
   */
  constructor(rank = null, copies = () => "", file = "") {
    this.file = file;
    this.rank = rank;
    this.copies = copies;
    /** @type {Row[]} */
    this.rows = [];
    this.size = 0; // known size of the file in bytes
    this.covered = 0; // bytes before this are known, even without rows
    /** @type {Uint8Array} */
    this.open = new Uint8Array(0); // the bytes of the last, unfinished line
    /** @type {Line[]} */
    this.openLines = []; // unterminated lines that are not in the merged log yet
    this.folds = new LogFolds();
    this.hasRecords = false;
    this.#shown = { key: "", rows: [] };
    this.version = 0; // increases with every change of the rows
  }

  /** @type {{key: string, rows: ShownRow[]}} */
  #shown;

  /** All rows to show: records folded, open lines behind all others. */
  get shown() {
    const { rows, openLines, hasRecords } = this;
    if (!openLines.length && !hasRecords) return rows;
    const key = `${this.version} ${this.folds.version}`;
    if (key !== this.#shown.key) {
      const folded = hasRecords ? this.folds.rowsOf(rows) : rows;
      this.#shown = { key, rows: [...folded, ...openLines] };
    }
    return this.#shown.rows;
  }

  /** Replaces the open lines shown after all others. @param {{text: string, is_error: boolean}[]} lines */
  setOpenLines(lines) {
    const { end } = this;
    this.version += 1;
    this.openLines = lines.map(({ text, is_error: isError }) => ({ start: end, end, text, ...(isError ? { rank: OF_STDERR } : {}) }));
  }

  /** Where the known bytes end: what follows is appended there. */
  get end() {
    const last = this.rows[this.rows.length - 1];
    return Math.max(this.covered, last ? last.end : 0);
  }

  /** Drops everything: the file was truncated. */
  clear() {
    this.rows = [];
    this.size = 0;
    this.covered = 0;
    this.open = new Uint8Array(0);
    this.folds = new LogFolds();
    this.#changed([]);
  }

  /**
   * Appends bytes. Known ones are ignored; a hole before them becomes a gap.
   * @param {number} offset
   * @param {Uint8Array} bytes
   * @param {number | null} [skippedLines] number of lines in the hole, if known
   * @param {RankAt} [rankAt]
   * @returns {number} number of rows added
   */
  append(offset, bytes, skippedLines = null, rankAt = undefined) {
    const before = this.rows.length;
    const known = this.end;
    if (offset + bytes.length <= known) return 0;
    if (offset > known) this.#addGap(this.#dropOpen(), offset, skippedLines);
    else bytes = bytes.subarray(known - offset);
    this.size = Math.max(this.size, offset + bytes.length);
    this.#addLines(Math.max(offset, known), bytes, rankAt);
    this.#changed(this.rows.slice(Math.max(0, before - 1)));
    return this.rows.length - before;
  }

  /** Sets the file's size: unknown bytes become a gap at the end. @param {number} size */
  extend(size) {
    if (size <= this.end) return;
    this.size = size;
    this.#addGap(this.#dropOpen(), size, null);
    this.#changed([]);
  }

  /**
   * Fills a page of bytes into the gap at `offset`.
   * @param {number} offset
   * @param {Uint8Array} bytes
   * @param {RankAt} [rankAt]
   * @returns {boolean} whether anything changed
   */
  fill(offset, bytes, rankAt) {
    const index = this.indexAt(offset);
    const gap = this.rows[index];
    if (!gap || !isGap(gap) || !bytes.length) return false;
    bytes = bytes.subarray(0, gap.end - offset);
    if (offset > gap.start) {
      const cut = bytes.indexOf(NEWLINE) + 1;
      if (cut < bytes.length) [offset, bytes] = [offset + cut, bytes.subarray(cut)];
    }
    if (offset + bytes.length < gap.end) {
      const cut = bytes.lastIndexOf(NEWLINE) + 1;
      if (cut > 0) bytes = bytes.subarray(0, cut);
    }
    const end = offset + bytes.length;
    const rows = [
      ...gapRow(gap.start, offset),
      ...lineRows(offset, bytes, rankAt),
      ...gapRow(end, gap.end),
    ];
    this.rows = this.rows.slice(0, index).concat(rows, this.rows.slice(index + 1));
    this.#changed(rows);
    return true;
  }

  /**
   * Fills one rank's lines into the gap that holds the scanned range from `start` to `end`.
   * @param {number} start
   * @param {number} end
   * @param {Uint8Array} bytes the lines, concatenated
   * @param {ArrayLike<number>} starts the lines' offsets in the file
   */
  fillLines(start, end, bytes, starts) {
    const index = this.indexAt(start);
    const gap = this.rows[index];
    if (!gap || !isGap(gap) || end <= start) return;
    const lines = lineRows(0, bytes).map((row, i) => {
      const at = Number(starts[i]);
      return line(at, at + row.end - row.start, row.text);
    });
    const inGap = lines.filter((row) => row.start >= gap.start && row.start < gap.end);
    const rows = [...gapRow(gap.start, start), ...inGap, ...gapRow(end, gap.end)];
    // The bytes between its lines belong to other ranks: there is nothing to load.
    if (end >= gap.end && index === this.rows.length - 1) this.covered = gap.end;
    this.rows = this.rows.slice(0, index).concat(rows, this.rows.slice(index + 1));
    this.#changed(rows);
  }

  /**
   * The index of the row with the byte at `offset` (the last row if it is after the end).
   * @param {number} offset
   * @param {ShownRow[]} [rows] these, or those that are shown
   * @returns {number}
   */
  indexAt(offset, rows = this.rows) {
    return Math.max(0, lastIndexWhere(rows.length, (i) => /** @type {ShownRow} */ (rows[i]).start <= offset));
  }

  /**
   * Keeps at most `limit` rows around the byte at `offset`; distant ones become gaps that can be loaded again.
   * @param {number} limit
   * @param {number} offset
   */
  trim(limit, offset) {
    if (this.rows.length <= limit * 1.1) return;
    const at = this.indexAt(offset);
    const first = Math.max(0, Math.min(at - (limit >> 1), this.rows.length - limit));
    const last = first + limit;
    const head = this.rows.slice(0, first);
    const tail = this.rows.slice(last);
    this.rows = [...merged(head), ...this.rows.slice(first, last), ...merged(tail)];
    if (tail.length) this.open = new Uint8Array(0);
    this.#changed([]);
  }

  /** @param {Row[]} added */
  #changed(added) {
    this.version += 1;
    this.hasRecords ||= added.some((row) => "isRecord" in row);
    const copies = added.length ? this.copies() : "";
    const copy = copies ? new RegExp(copies, "g") : null;
    for (const row of copy ? added : []) if (!isGap(row) && row.text.includes("/")) row.text = row.text.replace(/** @type {RegExp} */ (copy), "");
  }

  /**
   * @param {number} start
   * @param {Uint8Array} bytes
   * @param {RankAt} [rankAt]
   */
  #addLines(start, bytes, rankAt) {
    const last = this.rows[this.rows.length - 1];
    if (last && !isGap(last) && last.isOpen) {
      this.rows.pop();
      start = last.start;
      const cut = bytes.indexOf(NEWLINE) + 1;
      const rest = cut ? bytes.subarray(0, cut) : bytes;
      const whole = joined(this.open, rest);
      const end = last.end + rest.length;
      this.rows.push({ ...line(start, end, textOf(whole, end - start), last.rank), ...(cut ? {} : { isOpen: true }) });
      this.open = cut ? new Uint8Array(0) : bounded(whole);
      if (!cut) return;
      [start, bytes] = [end, bytes.subarray(cut)];
    }
    for (const row of lineRows(start, bytes, rankAt)) this.rows.push(row);
    const cut = bytes.lastIndexOf(NEWLINE) + 1;
    if (cut === bytes.length) return;
    this.open = bounded(bytes.slice(cut));
    const open = /** @type {Line} */ (this.rows[this.rows.length - 1]);
    this.rows[this.rows.length - 1] = { ...open, isOpen: true };
  }

  /**
   * Drops the unterminated line, whose rest is unknown; returns the start of the gap that replaces it.
   * @returns {number}
   */
  #dropOpen() {
    const { end } = this;
    const last = this.rows[this.rows.length - 1];
    this.open = new Uint8Array(0);
    if (!last || isGap(last) || !last.isOpen) return end;
    this.rows.pop();
    return last.start;
  }

  /**
   * @param {number} start
   * @param {number} end
   * @param {number | null} lines
   */
  #addGap(start, end, lines) {
    const last = this.rows[this.rows.length - 1];
    if (!last || !isGap(last)) this.rows.push({ start, end, isGap: true, lines });
    else {
      const sum = last.lines === null || lines === null ? null : last.lines + lines;
      this.rows[this.rows.length - 1] = { ...last, end, lines: sum };
    }
  }
}

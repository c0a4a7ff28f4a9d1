// The lines of one log file that the page knows, in file order, with gaps where it does not know them.

import { bounded, gapRow, isGap, joined, lineRows, merged, NEWLINE, rankPart, textOf } from "./rows.js";

import { OF_STDERR } from "./ranks.js";

/** @typedef {import("./ranks.js").RankAt} RankAt */
/** @typedef {import("./rows.js").Line} Line */
/** @typedef {import("./rows.js").Gap} Gap */
/** @typedef {import("./rows.js").Row} Row */

export { isGap };

export class LogDocument {
  /** @param {number | null} [rank] of whom only the lines are here */
  constructor(rank = null) {
    this.rank = rank;
    /** @type {Row[]} */
    this.rows = [];
    this.size = 0; // bytes of the file, as far as known
    this.covered = 0; // what lies before is known, even if no row is there
    /** @type {Uint8Array} */
    this.open = new Uint8Array(0); // the bytes of the last, unfinished line
    /** @type {Line[]} */
    this.openLines = []; // what the kernel shows of lines that are not in the log yet
    /** @type {{rows: Row[], count: number, openLines: Line[], all: Row[]}} */
    this.#joined = { rows: [], count: 0, openLines: [], all: [] };
  }

  /** @type {{rows: Row[], count: number, openLines: Line[], all: Row[]}} */
  #joined;

  /** All rows that are to be seen, with the lines that are not in the log yet. */
  get shown() {
    const { rows, openLines } = this;
    if (!openLines.length) return rows;
    const known = this.#joined;
    if (known.rows !== rows || known.count !== rows.length || known.openLines !== openLines) {
      this.#joined = { rows, count: rows.length, openLines, all: [...rows, ...openLines] };
    }
    return this.#joined.all;
  }

  /**
   * Shows these lines behind all others, in place of those that were there.
   * @param {{text: string, is_error: boolean}[]} lines
   */
  setOpenLines(lines) {
    const { end } = this;
    this.openLines = lines.map(({ text, is_error: isError }) => ({ start: end, end, text, ...(isError ? { rank: OF_STDERR } : {}) }));
  }

  /** Where the known bytes end: what follows is appended there. */
  get end() {
    const last = this.rows[this.rows.length - 1];
    return Math.max(this.covered, last ? last.end : 0);
  }

  /** How many lines are there, gaps not counted. */
  get lineCount() {
    return this.rows.reduce((count, row) => count + (isGap(row) ? 0 : 1), 0);
  }

  /** Forgets everything: the file was cut and starts again. */
  clear() {
    this.rows = [];
    this.size = 0;
    this.covered = 0;
    this.open = new Uint8Array(0);
  }

  /**
   * Adds bytes at the end. Those already known are dropped; a hole before them becomes a gap.
   * @param {number} offset
   * @param {Uint8Array} bytes
   * @param {number | null} [skippedLines] how many lines the hole has, where that is known
   * @param {RankAt} [rankAt]
   * @returns {number} how many rows were added
   */
  append(offset, bytes, skippedLines = null, rankAt = undefined) {
    const before = this.rows.length;
    const known = this.end;
    if (offset + bytes.length <= known) return 0;
    if (offset > known) this.#addGap(this.#dropOpen(), offset, skippedLines);
    else bytes = bytes.subarray(known - offset);
    this.size = Math.max(this.size, offset + bytes.length);
    this.#addLines(Math.max(offset, known), bytes, rankAt);
    return this.rows.length - before;
  }

  /**
   * Says how long the file is: what is not known yet becomes a gap at the end.
   * @param {number} size
   */
  extend(size) {
    if (size <= this.end) return;
    this.size = size;
    this.#addGap(this.#dropOpen(), size, null);
  }

  /**
   * Puts a page of bytes into the gap that holds `offset`.
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
    return true;
  }

  /**
   * Puts one rank's lines into the gap that holds what was looked through: `start` to `end`.
   * @param {number} start
   * @param {number} end
   * @param {Uint8Array} bytes its lines, one behind the other
   * @param {ArrayLike<number>} starts where each of them is in the file
   */
  fillLines(start, end, bytes, starts) {
    const index = this.indexAt(start);
    const gap = this.rows[index];
    if (!gap || !isGap(gap) || end <= start) return;
    const lines = lineRows(0, bytes).map((row, i) => {
      const at = Number(starts[i]);
      return { start: at, end: at + row.end - row.start, text: row.text };
    });
    const own = lines.filter((row) => row.start >= gap.start && row.start < gap.end);
    const rows = [...gapRow(gap.start, start), ...own, ...gapRow(end, gap.end)];
    // The bytes between its lines belong to others: nothing is to be read there.
    if (end >= gap.end && index === this.rows.length - 1) this.covered = gap.end;
    this.rows = this.rows.slice(0, index).concat(rows, this.rows.slice(index + 1));
  }

  /**
   * The index of the row that holds the byte at `offset` (the last row if it is behind the end).
   * @param {number} offset
   * @returns {number}
   */
  indexAt(offset) {
    let [low, high] = [0, this.rows.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (/** @type {Row} */ (this.rows[middle]).start <= offset) low = middle;
      else high = middle - 1;
    }
    return Math.max(low, 0);
  }

  /**
   * Keeps at most `limit` rows around the byte at `offset`; the far ones become gaps that can be read again.
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
      const line = joined(this.open, rest);
      const end = last.end + rest.length;
      this.rows.push({ start, end, text: textOf(line, end - start), ...rankPart(last.rank), ...(cut ? {} : { isOpen: true }) });
      this.open = cut ? new Uint8Array(0) : bounded(line);
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
   * Gives up the unfinished line, whose rest is not known, and says where a gap has to start so that it holds it.
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

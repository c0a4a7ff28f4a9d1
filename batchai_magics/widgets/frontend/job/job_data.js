// The data of a job that the page has received: numbers, logs, status, resource usage.

import { JobNumbers } from "./chart_points.js";
import { LogDocument } from "./log_document.js";
import { MERGED, ranksFrom } from "./log_rows.js";

/** @typedef {import("../core/messages.d.ts").Batch} Batch */
/** @typedef {import("../core/messages.d.ts").LinesPage} LinesPage */
/** @typedef {import("../core/messages.d.ts").Page} Page */
/** @typedef {import("../core/messages.d.ts").JobStatus} JobStatus */
/** @typedef {import("../core/messages.d.ts").ResourceUsage} ResourceUsage */

/** @typedef {{kind: string, file?: string, added?: number}} News  what has changed, and by how many rows; for a note, `file` is its text */

export class JobData {
  /** @param {() => string} [copies] what precedes the user's own paths in the logs, as an expression */
  constructor(copies = () => "") {
    this.copies = copies;
    this.points = new JobNumbers();
    /** @type {Map<string, LogDocument>} */
    this.logs = new Map();
    this.seq = 0; // of the latest batch
    this.isComplete = false; // everything has been sent
    /** @type {JobStatus} */
    this.status = { activity: "", progress: null };
    /** @type {ResourceUsage | null} */
    this.use = null; // resource usage
  }

  /** What the page has, so that the kernel sends only the rest. */
  get have() {
    const streamed = [...this.logs].filter(([, log]) => log.rank === null);
    const logs = Object.fromEntries(streamed.map(([file, log]) => [file, log.end]));
    const { generation, counts: values } = this.points;
    return { generation, values, logs };
  }

  /**
   * The document of a log file, or of one rank's lines in it.
   * @param {string} file
   * @param {number | null} [rank]
   */
  log(file, rank = null) {
    const key = rank === null ? file : `${file}#${rank}`;
    let log = this.logs.get(key);
    if (!log) this.logs.set(key, (log = new LogDocument(rank, this.copies, file)));
    return log;
  }

  /**
   * Applies the next batch of the stream.
   * @param {Batch} batch
   * @param {DataView[]} buffers
   * @returns {{news: News[], isLacking: boolean}} `isLacking`: a batch with numbers was lost
   */
  takeBatch(batch, buffers) {
    const isGap = batch.seq !== this.seq + 1 && this.seq !== 0;
    this.seq = batch.seq;
    const rest = [...buffers];
    const isVoid = this.points.begin(batch.generation ?? 0);
    const isWhole = this.#takeValues(batch.values ?? [], rest);
    /** @type {News[]} */
    const news = isVoid || batch.values?.length ? [{ kind: "points" }] : [];
    for (const part of batch.logs ?? []) {
      const log = this.log(part.file);
      if (part.restarted) log.clear();
      const bytes = bytesOf(rest.shift()).slice();
      const rankAt = part.ranked ? ranksFrom(part.offset, numbersOf(Int32Array, rest.shift())) : undefined;
      const added = log.append(part.offset, bytes, part.skipped, rankAt);
      log.size = Math.max(log.size, part.size);
      news.push({ kind: "log", file: part.file, added });
    }
    if (batch.use) {
      this.use = JSON.parse(new TextDecoder().decode(bytesOf(rest.shift())));
      news.push({ kind: "use" });
    }
    if (batch.status) {
      this.status = batch.status;
      news.push({ kind: "status" });
    }
    if (batch.open) {
      this.log(MERGED).setOpenLines(batch.open);
      news.push({ kind: "log", file: MERGED, added: 0 });
    }
    if (batch.complete !== this.isComplete) {
      this.isComplete = batch.complete;
      news.push({ kind: "complete" });
    }
    // Lost log bytes become a gap that can be loaded; lost numbers must be sent again.
    return { news, isLacking: isGap && !isWhole };
  }

  /**
   * Applies the reply to a request for bytes.
   * @param {string} file
   * @param {Page} page
   * @param {DataView[]} buffers
   * @returns {News}
   */
  takePage(file, { offset, size }, [bytes, ranks]) {
    const log = this.log(file);
    log.extend(size);
    log.fill(offset, bytesOf(bytes).slice(), ranks && ranksFrom(offset, numbersOf(Int32Array, ranks)));
    return { kind: "page", file };
  }

  /**
   * Applies the reply to a request for one rank's lines.
   * @param {string} file
   * @param {number} rank
   * @param {LinesPage} page
   * @param {DataView[]} buffers
   * @returns {News}
   */
  takeLines(file, rank, { start, end, size }, [bytes, offsets]) {
    const log = this.log(file, rank);
    const before = log.rows.length;
    const starts = numbersOf(Float64Array, offsets);
    if (size < log.end) log.clear();
    log.extend(size);
    log.fillLines(start, end, bytesOf(bytes).slice(), starts);
    const isNew = starts.length > 0 && log.end === end;
    return { kind: "page", file, added: isNew && before ? Math.max(0, log.rows.length - before) : 0 };
  }

  /**
   * @param {NonNullable<Batch["values"]>} parts
   * @param {DataView[]} rest the remaining buffers; those of the values are removed
   * @returns {boolean} whether they continue those already received
   */
  #takeValues(parts, rest) {
    let isWhole = true;
    /** @type {import("./chart_points.js").Positions} */
    let positions = { steps: [], ranks: [] };
    for (const part of parts) {
      const [first, ranks, column, epoch, time] = rest.splice(0, valueBuffers(part));
      if (!part.is_at_same) {
        const [steps, writers] = [numbersOf(Float64Array, first), numbersOf(Int32Array, ranks)];
        positions = { steps, ranks: writers, epoch: numbersOf(Float32Array, epoch), time: numbersOf(Float32Array, time) };
      }
      const values = numbersOf(Float32Array, part.is_at_same ? first : column);
      isWhole = this.points.of(part.name).add(part.first, positions, values) && isWhole;
    }
    return isWhole;
  }
}

/** The number of buffers of a part of values. @param {{is_at_same?: boolean}} part */
export function valueBuffers({ is_at_same: isAtSame }) {
  return isAtSame ? 1 : 5;
}

/** A binary buffer of a message as bytes. @type {(view: DataView | ArrayBuffer | undefined) => Uint8Array} */
export function bytesOf(view) {
  if (!view) return new Uint8Array(0);
  return view instanceof ArrayBuffer
    ? new Uint8Array(view)
    : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/**
 * A buffer, which may not be aligned, as an array of numbers.
 * @template T
 * @param {new (buffer: ArrayBuffer) => T} Numbers
 * @param {DataView | ArrayBuffer | undefined} view
 */
export function numbersOf(Numbers, view) {
  return new Numbers(/** @type {ArrayBuffer} */ (bytesOf(view).slice().buffer));
}

// The logs of a recording as far as it was replayed: answers what a view otherwise asks a kernel.

import { bytesOf } from "../job/job_data.js";
import { LogDocument } from "../job/log_document.js";
import { isGap, rankOf, ranksFrom } from "../job/log_rows.js";
import { finder, isRisky, plain } from "../job/log_text.js";

/** @typedef {import("../job/log_rows.js").Line} Line */
/** @typedef {{content: Record<string, any>, buffers: ArrayBuffer[]}} Answer  without the id of its request */

const POINT_BUFFERS = 6; // before those of logs in a batch
const VALUE_BUFFERS = 5; // for each metric
const RISKY = "This expression may take too long; only a kernel can search for it.";

export class RecordedLogs {
  /** @type {Map<string, LogDocument>} */
  #logs = new Map();

  /** Forgets everything: the replay starts over. */
  clear() {
    this.#logs.clear();
  }

  /**
   * Takes the logs of a replayed batch.
   * @param {Record<string, any>} batch
   * @param {DataView[]} buffers
   */
  take(batch, buffers) {
    let next = (batch.points ? POINT_BUFFERS : 0) + VALUE_BUFFERS * (batch.values?.length ?? 0);
    for (const part of batch.logs ?? []) {
      if (part.restarted) this.#logs.delete(part.file);
      const log = this.#logs.get(part.file) ?? new LogDocument();
      this.#logs.set(part.file, log);
      const bytes = bytesOf(buffers[next++]).slice();
      const pairs = part.ranked ? new Int32Array(/** @type {ArrayBuffer} */ (bytesOf(buffers[next++]).slice().buffer)) : null;
      log.append(part.offset, bytes, part.skipped, pairs ? ranksFrom(part.offset, pairs) : undefined);
    }
  }

  /**
   * The answer to a request for lines of a rank or for a search; undefined for any other.
   * @param {Record<string, any>} request
   * @returns {Answer | undefined}
   */
  answer(request) {
    if (request.kind === "lines") return this.#linesOf(request);
    return request.kind === "search" ? this.#search(request) : undefined;
  }

  /**
   * @param {Record<string, any>} request
   * @returns {Answer}
   */
  #linesOf({ file, rank, offset, backward }) {
    const end = this.#logs.get(file)?.end ?? 0;
    const start = backward ? 0 : offset;
    const lines = this.#lines(file, rank).filter((line) => line.start >= start);
    const text = lines.map((line) => (line.isOpen ? line.text : `${line.text}\n`)).join("");
    const content = { kind: "lines", file, rank, start, end, size: end };
    return { content, buffers: [new TextEncoder().encode(text).buffer, starts(lines)] };
  }

  /**
   * @param {Record<string, any>} request
   * @returns {Answer}
   */
  #search({ file, rank, query, regex }) {
    if (regex && isRisky(query)) return { content: { kind: "reply", text: RISKY }, buffers: [] };
    const { find } = finder(query, regex);
    const hits = this.#lines(file, rank).filter((line) => find?.(plain(line.text)).length);
    return { content: { kind: "reply", total: hits.length, first: 0, complete: true }, buffers: [starts(hits)] };
  }

  /**
   * The lines that were recorded, of one rank or of all.
   * @param {string} file
   * @param {number | null} rank
   * @returns {Line[]}
   */
  #lines(file, rank) {
    const rows = this.#logs.get(file)?.rows ?? [];
    return rows.flatMap((row) => (isGap(row) || (rank !== null && rankOf(row) !== rank) ? [] : [row]));
  }
}

/**
 * The first bytes of lines, as the kernel sends them.
 * @param {Line[]} lines
 */
function starts(lines) {
  return new Float64Array(lines.map((line) => line.start)).buffer;
}

// Requests missing parts of a log from the kernel: bytes of the file, or lines of one rank.

import { PAGE_BYTES } from "./job_session.js";

/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("./log_document.js").LogDocument} LogDocument */
/** @typedef {import("./log_document.js").Gap} Gap */

export class LogReader {
  /**
   * @param {JobSession} session
   * @param {string} file
   * @param {LogDocument} log
   */
  constructor(session, file, log) {
    this.session = session;
    this.file = file;
    this.log = log;
  }

  /**
   * Requests one end of a gap.
   * @param {Gap} gap
   * @param {boolean} isFromEnd
   */
  readGap(gap, isFromEnd) {
    if (this.log.rank !== null) this.#readLines(isFromEnd ? gap.end : gap.start, isFromEnd);
    else this.#read(isFromEnd ? Math.max(gap.start, gap.end - PAGE_BYTES) : gap.start);
  }

  /**
   * Requests the surroundings of a byte in a gap.
   * @param {Gap} gap
   * @param {number} offset
   */
  readAround(gap, offset) {
    if (this.log.rank !== null) this.#readLines(Math.max(gap.start, offset), false);
    else this.#read(Math.max(gap.start, offset - (PAGE_BYTES >> 1)));
  }

  /** Requests the end of the file, of which nothing is loaded yet. */
  readEnd() {
    if (this.log.rank !== null) this.#readLines(-1, true);
    else this.#read(-PAGE_BYTES);
  }

  /** Requests what was appended to the file. */
  readOn() {
    if (!this.log.size) this.readEnd();
    else if (this.log.rank !== null) this.#readLines(this.log.end, false);
    else this.#read(this.log.end);
  }

  /** @param {number} offset */
  #read(offset) {
    this.session.read(this.file, offset);
  }

  /** @type {(offset: number, isBackward: boolean) => void} */
  #readLines(offset, isBackward) {
    this.session.readLines(this.file, Number(this.log.rank), offset, isBackward);
  }
}

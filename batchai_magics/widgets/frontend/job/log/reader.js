// Asks the kernel for what is not here of a log: bytes of the file, or lines that one rank wrote into it.

import { PAGE_BYTES } from "../session.js";

/** @typedef {import("../session.js").Session} Session */
/** @typedef {import("./document.js").LogDocument} LogDocument */
/** @typedef {import("./document.js").Gap} Gap */

export class LogReader {
  /**
   * @param {Session} session
   * @param {string} file
   * @param {LogDocument} log
   */
  constructor(session, file, log) {
    this.session = session;
    this.file = file;
    this.log = log;
  }

  /**
   * Asks for one end of a gap.
   * @param {Gap} gap
   * @param {boolean} isFromEnd
   */
  readGap(gap, isFromEnd) {
    if (this.log.rank !== null) this.#readLines(isFromEnd ? gap.end : gap.start, isFromEnd);
    else this.#read(isFromEnd ? Math.max(gap.start, gap.end - PAGE_BYTES) : gap.start);
  }

  /**
   * Asks for what is around a byte in a gap.
   * @param {Gap} gap
   * @param {number} offset
   */
  readAround(gap, offset) {
    if (this.log.rank !== null) this.#readLines(Math.max(gap.start, offset), false);
    else this.#read(Math.max(gap.start, offset - (PAGE_BYTES >> 1)));
  }

  /** Asks for the end of the file, of which nothing is here yet. */
  readEnd() {
    if (this.log.rank !== null) this.#readLines(-1, true);
    else this.#read(-PAGE_BYTES);
  }

  /** Asks for what the file has grown by. */
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

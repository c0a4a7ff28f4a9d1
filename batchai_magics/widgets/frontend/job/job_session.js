// What a job's views share: the data that the host has sent, the connection to it, and the listeners to changes.

import { KernelConnection } from "../core/kernel.js";
import { JobData } from "./job_data.js";

/** @typedef {import("../core/messages.d.ts").Host} Host */
/** @typedef {import("./job_data.js").News} News */
/** @typedef {import("../core/messages.d.ts").Reply} Reply */

export const PAGE_BYTES = 1 << 16;
const ACK_EVERY = 16; // messages: the kernel stops sending without acks
export const MAIN_LOG = "stdout.txt";

export class JobSession extends JobData {
  /** @param {Host} host */
  constructor(host) {
    super(() => host.get("facts")?.copies ?? "");
    this.host = host;
    /** @type {Set<(kind: string, file: string, added: number) => void>} */
    this.listeners = new Set();
    this.confirmed = 0; // the last acknowledged message
    this.isKept = false; // the output was frozen, but the view stays in the page
    /** @type {Set<string>} */
    this.reading = new Set(); // the requests for parts of logs that are not answered yet
    this.connection = new KernelConnection(host, {
      message: (content, buffers) => this.#take(content, buffers),
      busy: () => this.#notify("busy"),
      lost: () => this.#notify("lost"),
      more: (kind) => (kind === "ready" ? { have: this.have } : { seq: (this.confirmed = this.seq) }),
    });
  }

  /** Whether the kernel has sent anything of the job. */
  get isAnswered() {
    return this.seq > 0;
  }

  get isKernelBusy() {
    return this.connection.isBusy;
  }

  get isKernelLost() {
    return this.connection.isLost;
  }

  /** Tells the kernel that the view was added to the page. */
  enter() {
    this.connection.enter();
  }

  /**
   * Requests bytes of a file.
   * @param {string} file
   * @param {number} offset
   */
  read(file, offset) {
    return this.#readOnce({ kind: "read", file, offset, limit: PAGE_BYTES }, ({ content, buffers }) => this.takePage(file, content, buffers));
  }

  /**
   * Requests a page of one rank's lines, after `offset` or before it.
   * @param {string} file
   * @param {number} rank
   * @param {number} offset -1: the file's end
   * @param {boolean} backward
   */
  readLines(file, rank, offset, backward) {
    return this.#readOnce({ kind: "lines", file, rank, offset, backward }, ({ content, buffers }) => this.takeLines(file, rank, content, buffers));
  }

  /**
   * Requests a part of a log, unless this request is not answered yet.
   * @param {Record<string, unknown>} request
   * @param {(reply: Reply) => News} take
   */
  async #readOnce(request, take) {
    const key = JSON.stringify(request);
    if (this.reading.has(key)) return;
    this.reading.add(key);
    const reply = await this.request(request);
    this.reading.delete(key);
    /** @type {News} */
    const news = reply.content.text ? { kind: "note", file: reply.content.text } : take(reply);
    this.#notify(news.kind, news.file, news.added);
  }

  /**
   * Sends a request; the reply may be late, or never come if the kernel is gone.
   * @param {Record<string, unknown>} content
   * @returns {Promise<Reply>}
   */
  request(content) {
    return this.connection.ask(content);
  }

  /** Sends a message that needs no reply. @param {Record<string, unknown>} content */
  tell(content) {
    this.connection.tell(content);
  }

  /**
   * @param {(kind: string, file: string, added: number) => void} listener
   * @returns {() => void} stops listening
   */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Tells the kernel that the last view was removed. */
  bye() {
    if (!this.listeners.size) this.connection.leave();
  }

  /** Stops timers and listeners. */
  close() {
    this.connection.close();
    this.#notify("closed");
  }

  /** @type {(content: any, buffers: DataView[]) => void} */
  #take(content, buffers) {
    if (content.kind === "keep") {
      this.isKept = true;
      this.#notify("keep");
    }
    if (content.kind !== "batch") return;
    const { news, isLacking } = this.takeBatch(content, buffers);
    for (const item of news) this.#notify(item.kind, item.file, item.added);
    if (this.seq - this.confirmed >= ACK_EVERY) {
      this.confirmed = this.seq;
      this.tell({ kind: "alive", page: this.connection.page, seq: this.seq });
    }
    if (isLacking) this.connection.hello();
  }

  /**
   * @param {string} kind
   * @param {string} [file]
   * @param {number} [added]
   */
  #notify(kind, file = "", added = 0) {
    for (const listener of this.listeners) listener(kind, file, added);
  }
}

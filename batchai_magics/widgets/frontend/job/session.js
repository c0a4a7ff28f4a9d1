// The line to the kernel that a job's views share, one for each model: it greets, asks, and takes what is sent.

import { onKernelLost } from "../core/kernel.js";
import { bytesOf, JobData } from "./data.js";
import { Questions } from "./questions.js";

/** @typedef {import("../core/messages.d.ts").Model} Model */
/** @typedef {import("./data.js").News} News */
/** @typedef {import("./messages.d.ts").Batch} Batch */
/** @typedef {import("./messages.d.ts").Reply} Reply */

export const PAGE_BYTES = 1 << 16;
const HELLO_MS = 400;
const HEARTBEAT_MS = 20_000;
const ACK_EVERY = 16; // messages: a kernel that hears of none for long stops sending
export const MAIN_LOG = "stdout.txt";

export class Session {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.data = new JobData();
    /** @type {Set<(kind: string, file: string, added: number) => void>} */
    this.listeners = new Set();
    this.page = Math.random().toString(36).slice(2); // a name that no other page has
    this.turn = 0; // how often the view was put into the page
    this.confirmed = 0; // up to which message the kernel knows of us
    this.questions = new Questions({ send: (content) => this.#send(content), setBusy: (isBusy) => this.#setBusy(isBusy) });
    this.isKept = false; // the output becomes a still picture, and the view stays in the page
    this.isKernelBusy = false;
    this.isKernelLost = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.greeting = undefined;
    this.onMessage = (/** @type {any} */ content, /** @type {DataView[]} */ buffers) => this.#take(content, buffers);
    model.on("msg:custom", this.onMessage);
    this.stopWatching = onKernelLost(model, () => this.#lost());
    this.heartbeat = setInterval(() => this.#confirm("alive"), HEARTBEAT_MS);
  }

  /** The step lines and every other number. */
  get points() {
    return this.data.points;
  }

  /** How far the job is, and what it does. */
  get standing() {
    return this.data.standing;
  }

  /** Whether everything there is has been sent. */
  get isComplete() {
    return this.data.isComplete;
  }

  /** Whether the kernel has sent anything. */
  get isAnswered() {
    return this.data.seq > 0;
  }

  /** Says that the view is in the page, from now on. */
  enter() {
    this.turn += 1;
    this.hello();
  }

  /** Says hello, again and again until the kernel sends what is missing here. */
  hello() {
    // The first one may be stuck behind a running cell: it can come before the page has its own line to the kernel.
    clearTimeout(this.greeting);
    if (this.isKernelLost) return;
    this.greeting = setTimeout(() => this.listeners.size && this.hello(), HELLO_MS);
    this.#send({ kind: "ready", page: this.page, turn: this.turn, have: this.data.have });
  }

  /**
   * The document of a log file, or of what one rank wrote into it.
   * @param {string} file
   * @param {number | null} [rank]
   */
  log(file, rank = null) {
    return this.data.log(file, rank);
  }

  /**
   * Asks for a page of lines that one rank wrote, after `offset` or before it.
   * @param {string} file
   * @param {number} rank
   * @param {number} offset -1: the file's end
   * @param {boolean} backward
   */
  readLines(file, rank, offset, backward) {
    this.ask(`${file}#${rank}@${offset}${backward ? "-" : "+"}`, { kind: "lines", file, rank, offset, backward });
  }

  /**
   * Asks the kernel; the answer may come late, or never if the kernel is gone.
   * @param {Record<string, unknown>} content
   * @returns {Promise<Reply>}
   */
  request(content) {
    const { id, answered } = this.questions.next();
    this.ask(id, content);
    return answered;
  }

  /**
   * Asks for bytes of a file; one question at a time for each place.
   * @param {string} file
   * @param {number} offset
   */
  read(file, offset) {
    this.ask(`${file}@${offset}`, { kind: "read", file, offset, limit: PAGE_BYTES });
  }

  /**
   * Sends a request that the kernel answers; until it does, `isKernelBusy` may become true.
   * @param {string} id
   * @param {Record<string, unknown>} content
   */
  ask(id, content) {
    if (!this.isKernelLost) this.questions.ask(id, content);
  }

  /**
   * Tells the kernel something that needs no answer.
   * @param {Record<string, unknown>} content
   */
  tell(content) {
    this.#send(content);
  }

  /**
   * @param {(kind: string, file: string, added: number) => void} listener
   * @returns {() => void} stops listening
   */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Says that nobody looks any more. */
  bye() {
    if (!this.listeners.size) this.#send({ kind: "bye", page: this.page, turn: this.turn });
  }

  /** Ends what the session has running. */
  close() {
    this.stopWatching();
    clearInterval(this.heartbeat);
    clearTimeout(this.greeting);
    this.questions.stop();
    this.#notify("closed");
    this.model.off("msg:custom", this.onMessage);
  }

  #lost() {
    clearTimeout(this.greeting);
    this.questions.stop();
    this.isKernelLost = true;
    this.#notify("lost");
  }

  #keep() {
    this.isKept = true;
    this.#notify("keep");
  }

  /** @param {"ack" | "alive"} kind */
  #confirm(kind) {
    this.confirmed = this.data.seq;
    this.#send({ kind, page: this.page, seq: this.confirmed });
  }

  /**
   * @param {any} content
   * @param {DataView[]} buffers
   */
  #take(content, buffers) {
    if (this.questions.take(content.id, () => ({ content, bytes: bytesOf(buffers[0]).slice() }))) return;
    if (content.kind === "batch") this.#takeBatch(content, buffers);
    else if (content.kind === "keep") this.#keep();
    else if (content.kind === "lines") this.#takeAnswer(content.id, this.data.takeLines(content, buffers));
    else if (content.kind === "page") this.#takeAnswer(content.id, this.data.takePage(content, buffers));
    else if (content.kind === "answer") this.#takeAnswer(content.id, { kind: "answer", file: content.text });
  }

  /**
   * @param {Batch} batch
   * @param {DataView[]} buffers
   */
  #takeBatch(batch, buffers) {
    clearTimeout(this.greeting);
    const { news, isLacking } = this.data.takeBatch(batch, buffers);
    for (const item of news) this.#notify(item.kind, item.file, item.added);
    if (batch.seq - this.confirmed >= ACK_EVERY) this.#confirm("ack");
    if (isLacking) this.hello();
  }

  /**
   * @param {string} id
   * @param {News} news
   */
  #takeAnswer(id, news) {
    this.questions.settle(id);
    this.#notify(news.kind, news.file, news.added);
  }

  /** @param {boolean} isBusy */
  #setBusy(isBusy) {
    if (isBusy === this.isKernelBusy || this.isKernelLost) return; // nobody will ever answer
    this.isKernelBusy = isBusy;
    this.#notify("busy");
  }

  /**
   * @param {string} kind
   * @param {string} [file]
   * @param {number} [added]
   */
  #notify(kind, file = "", added = 0) {
    for (const listener of this.listeners) listener(kind, file, added);
  }

  /** @param {Record<string, unknown>} content */
  #send(content) {
    if (this.isKernelLost) return;
    try {
      this.model.send(content);
    } catch {
      // The kernel is gone: the view keeps showing what it has.
      this.#setBusy(true);
    }
  }
}

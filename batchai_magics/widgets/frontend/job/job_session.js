// The connection to the host that a job's views share: greets, asks, receives the stream.

import { bytesOf, JobData } from "./job_data.js";

/** @typedef {import("../core/messages.d.ts").Host} Host */
/** @typedef {import("./job_data.js").News} News */
/** @typedef {import("../core/messages.d.ts").Batch} Batch */
/** @typedef {import("../core/messages.d.ts").Reply} Reply */

export const PAGE_BYTES = 1 << 16;
const PATIENCE_MS = 1500; // without an answer, after which the kernel counts as busy
const HELLO_MS = 400;
const HEARTBEAT_MS = 20_000;
const ACK_EVERY = 16; // messages: the kernel stops sending without acks
export const MAIN_LOG = "stdout.txt";

export class JobSession {
  /** @param {Host} host */
  constructor(host) {
    this.host = host;
    this.data = new JobData(() => host.get("facts")?.copies ?? "");
    /** @type {Set<(kind: string, file: string, added: number) => void>} */
    this.listeners = new Set();
    this.page = Math.random().toString(36).slice(2); // a random page id
    this.turn = 0; // number of times that the view was added to the page
    this.confirmed = 0; // the last acknowledged message
    this.requests = new PendingRequests({ send: (content) => this.#send(content), setBusy: (isBusy) => this.#setBusy(isBusy) });
    this.isKept = false; // the output was frozen, but the view stays in the page
    this.isKernelBusy = false;
    this.isKernelLost = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.greeting = undefined;
    this.onMessage = (/** @type {any} */ content, /** @type {DataView[]} */ buffers) => this.#take(content, buffers);
    this.onLost = () => this.#lost();
    this.onConnected = () => (this.hello(), this.requests.sendAgain());
    host.on("msg:custom", this.onMessage);
    host.on("lost", this.onLost);
    host.on("connected", this.onConnected);
    this.heartbeat = setInterval(() => this.#confirm("alive"), HEARTBEAT_MS);
  }

  /** The metrics. */
  get points() {
    return this.data.points;
  }

  /** The job's progress and activity. */
  get status() {
    return this.data.status;
  }

  /** Whether the job has ended and everything has been sent. */
  get isComplete() {
    return this.data.isComplete;
  }

  /** Whether the kernel has sent anything. */
  get isAnswered() {
    return this.data.seq > 0;
  }

  /** Tells the kernel that the view was added to the page. */
  enter() {
    this.turn += 1;
    this.hello();
  }

  /** Says hello repeatedly until the kernel sends what is missing. */
  hello() {
    // The first one may be queued behind a running cell, if the page has no subshell yet.
    clearTimeout(this.greeting);
    if (this.isKernelLost) return;
    this.greeting = setTimeout(() => this.listeners.size && this.hello(), HELLO_MS);
    this.#send({ kind: "ready", page: this.page, turn: this.turn, have: this.data.have });
  }

  /**
   * The document of a log file, or of one rank's lines in it.
   * @param {string} file
   * @param {number | null} [rank]
   */
  log(file, rank = null) {
    return this.data.log(file, rank);
  }

  /**
   * Requests a page of one rank's lines, after `offset` or before it.
   * @param {string} file
   * @param {number} rank
   * @param {number} offset -1: the file's end
   * @param {boolean} backward
   */
  readLines(file, rank, offset, backward) {
    this.ask(`${file}#${rank}@${offset}${backward ? "-" : "+"}`, { kind: "lines", file, rank, offset, backward });
  }

  /**
   * Sends a request; the reply may be late, or never come if the kernel is gone.
   * @param {Record<string, unknown>} content
   * @returns {Promise<Reply>}
   */
  request(content) {
    const { id, answered } = this.requests.next();
    this.ask(id, content);
    return answered;
  }

  /**
   * Requests bytes of a file; one request at a time for each offset.
   * @param {string} file
   * @param {number} offset
   */
  read(file, offset) {
    this.ask(`${file}@${offset}`, { kind: "read", file, offset, limit: PAGE_BYTES });
  }

  /**
   * Sends a request with this id; until the kernel answers, `isKernelBusy` may become true.
   * @param {string} id
   * @param {Record<string, unknown>} content
   */
  ask(id, content) {
    if (!this.isKernelLost) this.requests.ask(id, content);
  }

  /**
   * Sends a message that needs no answer.
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

  /** Tells the kernel that the view was removed. */
  bye() {
    if (!this.listeners.size) this.#send({ kind: "bye", page: this.page, turn: this.turn });
  }

  /** Stops timers and listeners. */
  close() {
    clearInterval(this.heartbeat);
    clearTimeout(this.greeting);
    this.requests.stop();
    this.#notify("closed");
    this.host.off("lost", this.onLost);
    this.host.off("connected", this.onConnected);
    this.host.off("msg:custom", this.onMessage);
  }

  #lost() {
    clearTimeout(this.greeting);
    this.requests.stop();
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
    if (this.requests.take(content.id, () => ({ content, bytes: bytesOf(buffers[0]).slice() }))) return;
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
    this.requests.settle(id);
    this.#notify(news.kind, news.file, news.added);
  }

  /** @param {boolean} isBusy */
  #setBusy(isBusy) {
    if (isBusy === this.isKernelBusy || this.isKernelLost) return; // no answer will come
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
      this.host.send(content);
    } catch {
      // The kernel is gone: the view keeps showing what it has.
      this.#setBusy(true);
    }
  }
}

/** Requests that the kernel has not answered yet: one at a time for each id. */
export class PendingRequests {
  /** @param {{send: (content: Record<string, unknown>) => void, setBusy: (isBusy: boolean) => void}} on */
  constructor(on) {
    this.on = on;
    this.count = 0;
    /** @type {Map<string, (reply: Reply) => void>} */
    this.waiting = new Map();
    /** @type {Map<string, {content: Record<string, unknown>, patience: ReturnType<typeof setTimeout>}>} */
    this.pending = new Map();
  }

  /**
   * A new request id, and the promise of its reply.
   * @returns {{id: string, answered: Promise<Reply>}}
   */
  next() {
    this.count += 1;
    const id = `q${this.count}`;
    return { id, answered: new Promise((resolve) => this.waiting.set(id, resolve)) };
  }

  /**
   * Sends a request, unless one with this id is pending.
   * @param {string} id
   * @param {Record<string, unknown>} content
   */
  ask(id, content) {
    if (this.pending.has(id)) return;
    const patience = setTimeout(() => this.on.setBusy(true), PATIENCE_MS);
    this.pending.set(id, { content, patience });
    this.on.send({ ...content, id });
  }

  /** Sends all again after the connection was lost, and with it their answers; a job is not submitted twice. */
  sendAgain() {
    for (const [id, { content }] of [...this.pending]) {
      if (content.kind !== "again") this.on.send({ ...content, id });
      else this.take(id, () => ({ content: { text: "connection lost: the list of jobs shows whether it was submitted" }, bytes: new Uint8Array() }));
    }
  }

  /**
   * Resolves the promise that waits for a reply.
   * @param {string} id
   * @param {() => Reply} reply
   * @returns {boolean} whether there was one
   */
  take(id, reply) {
    const give = this.waiting.get(id);
    if (!give) return false;
    this.waiting.delete(id);
    this.settle(id);
    give(reply());
    return true;
  }

  /**
   * Records that a request was answered.
   * @param {string} id
   */
  settle(id) {
    clearTimeout(this.pending.get(id)?.patience);
    this.pending.delete(id);
    this.on.setBusy(false);
  }

  /** Stops waiting for answers. */
  stop() {
    for (const { patience } of this.pending.values()) clearTimeout(patience);
  }
}

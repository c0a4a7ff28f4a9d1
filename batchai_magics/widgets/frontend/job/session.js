// What the page knows of a job, kept once per model and shared by all its views.

import { onKernelLost } from "../core/kernel.js";
import { bytesOf, integers, numbers } from "./buffers.js";
import { LogDocument } from "./log/document.js";
import { ranksFrom } from "./log/ranks.js";
import { PointTable } from "./points.js";

/** @typedef {import("../core/model.d.ts").Model} Model */
/** @typedef {import("./messages.d.ts").Batch} Batch */
/** @typedef {import("./messages.d.ts").Page} Page */
/** @typedef {import("./messages.d.ts").Answer} Answer */

/** @typedef {import("./messages.d.ts").Reply} Reply */

export const PAGE_BYTES = 1 << 16;
const PATIENCE_MS = 1500; // after which a kernel that did not answer is called busy
const HELLO_MS = 400;
const HEARTBEAT_MS = 20_000;
const ACK_EVERY = 16; // messages: a kernel that hears of none for long stops sending
export const MAIN_LOG = "stdout.txt";

export class Session {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.points = new PointTable();
    /** @type {Map<string, LogDocument>} */
    this.logs = new Map();
    /** @type {Set<(kind: string, file: string, added: number) => void>} */
    this.listeners = new Set();
    this.page = Math.random().toString(36).slice(2); // a name that no other page has
    this.turn = 0; // how often the view was put into the page
    this.seq = 0;
    this.confirmed = 0; // up to which message the kernel knows of us
    this.questions = 0;
    /** @type {Map<string, (reply: Reply) => void>} */
    this.waiting = new Map();
    this.isComplete = false; // everything there is has been sent
    this.isKept = false; // the output becomes a still picture, and the view stays in the page
    /** @type {Map<string, ReturnType<typeof setTimeout>>} */
    this.pending = new Map();
    this.isKernelBusy = false;
    this.isKernelLost = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.greeting = undefined;
    this.onMessage = (/** @type {any} */ content, /** @type {DataView[]} */ buffers) => this.#take(content, buffers);
    model.on("msg:custom", this.onMessage);
    this.stopWatching = onKernelLost(model, () => this.#lost());
    this.heartbeat = setInterval(() => this.#confirm("alive"), HEARTBEAT_MS);
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
    const streamed = [...this.logs].filter(([, log]) => log.rank === null);
    const logs = Object.fromEntries(streamed.map(([file, log]) => [file, log.end]));
    const { count: points, generation } = this.points;
    this.#send({ kind: "ready", page: this.page, turn: this.turn, have: { points, generation, values: this.points.counts, logs } });
  }

  /**
   * The document of a log file, or of what one rank wrote into it.
   * @param {string} file
   * @param {number | null} [rank]
   */
  log(file, rank = null) {
    const key = rank === null ? file : `${file}#${rank}`;
    let log = this.logs.get(key);
    if (!log) this.logs.set(key, (log = new LogDocument(rank)));
    return log;
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
    this.questions += 1;
    const id = `q${this.questions}`;
    const answered = new Promise((resolve) => this.waiting.set(id, resolve));
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
    if (this.pending.has(id) || this.isKernelLost) return;
    const giveUp = setTimeout(() => this.#setBusy(true), PATIENCE_MS);
    this.pending.set(id, giveUp);
    this.#send({ ...content, id });
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
    for (const timer of this.pending.values()) clearTimeout(timer);
    this.#notify("closed");
    this.model.off("msg:custom", this.onMessage);
  }

  #lost() {
    clearTimeout(this.greeting);
    this.isKernelLost = true;
    this.#notify("lost");
  }

  #keep() {
    this.isKept = true;
    this.#notify("keep");
  }

  /** @param {"ack" | "alive"} kind */
  #confirm(kind) {
    this.confirmed = this.seq;
    this.#send({ kind, page: this.page, seq: this.seq });
  }

  /**
   * @param {any} content
   * @param {DataView[]} buffers
   */
  #take(content, buffers) {
    const waiting = this.waiting.get(content.id);
    if (waiting) {
      this.waiting.delete(content.id);
      this.#settle(content.id);
      waiting({ content, bytes: bytesOf(buffers[0]).slice() });
    } else if (content.kind === "batch") this.#takeBatch(content, buffers);
    else if (content.kind === "keep") this.#keep();
    else if (content.kind === "lines") this.#takeLines(content, buffers);
    else if (content.kind === "page") this.#takePage(content, buffers);
    else if (content.kind === "answer") this.#takeAnswer(content);
  }

  /**
   * @param {Batch} batch
   * @param {DataView[]} buffers
   */
  #takeBatch(batch, buffers) {
    clearTimeout(this.greeting);
    const isGap = batch.seq !== this.seq + 1 && this.seq !== 0;
    this.seq = batch.seq;
    const rest = [...buffers];
    let isWhole = true;
    if (batch.points) {
      const [steps, ranks, ...values] = rest.splice(0, 5);
      this.points.begin(batch.points.generation);
      isWhole = this.points.add(batch.points.first, integers(steps), integers(ranks), values.map(numbers));
      this.#notify("points");
    }
    for (const part of batch.values ?? []) {
      const [steps, ranks, values] = rest.splice(0, 3);
      const table = this.points.other(part.name);
      isWhole = table.add(part.first, integers(steps), integers(ranks), [numbers(values)]) && isWhole;
      this.#notify("points");
    }
    for (const part of batch.logs ?? []) {
      const log = this.log(part.file);
      if (part.restarted) log.clear();
      const bytes = bytesOf(rest.shift()).slice();
      const added = log.append(part.offset, bytes, part.skipped, part.ranked ? ranksFrom(part.offset, integers(rest.shift())) : undefined);
      log.size = Math.max(log.size, part.size);
      this.#notify("log", part.file, added);
    }
    if (batch.complete !== this.isComplete) {
      this.isComplete = batch.complete;
      this.#notify("complete");
    }
    if (this.seq - this.confirmed >= ACK_EVERY) this.#confirm("ack");
    // A batch was lost on the way: log bytes show as a gap that can be read, points must be sent again.
    if (isGap && !isWhole) this.hello();
  }

  /**
   * @param {Page} page
   * @param {DataView[]} buffers
   */
  #takePage(page, [bytes, ranks]) {
    this.#settle(page.id);
    const log = this.log(page.file);
    log.extend(page.size);
    log.fill(page.offset, bytesOf(bytes).slice(), ranks && ranksFrom(page.offset, integers(ranks)));
    this.#notify("page", page.file);
  }

  /**
   * @param {{id: string, file: string, rank: number, start: number, end: number, size: number}} page
   * @param {DataView[]} buffers
   */
  #takeLines(page, buffers) {
    this.#settle(page.id);
    const log = this.log(page.file, page.rank);
    const before = log.rows.length;
    const starts = new Float64Array(/** @type {ArrayBuffer} */ (bytesOf(buffers[1]).slice().buffer));
    if (page.size < log.end) log.clear();
    log.extend(page.size);
    log.fillLines(page.start, page.end, bytesOf(buffers[0]).slice(), starts);
    const isNew = starts.length > 0 && log.end === page.end;
    this.#notify("page", page.file, isNew && before ? Math.max(0, log.rows.length - before) : 0);
  }

  /** @param {Answer} answer */
  #takeAnswer(answer) {
    this.#settle(answer.id);
    this.#notify("answer", answer.text);
  }

  /** @param {string} id */
  #settle(id) {
    clearTimeout(this.pending.get(id));
    this.pending.delete(id);
    this.#setBusy(false);
  }

  /** @param {boolean} isBusy */
  #setBusy(isBusy) {
    if (isBusy === this.isKernelBusy) return;
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
    try {
      this.model.send(content);
    } catch {
      // The kernel is gone: the view keeps showing what it has.
      this.#setBusy(true);
    }
  }
}

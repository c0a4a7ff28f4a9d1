// The page's line to the kernel: says hello and that it is there, asks, and tells when nobody answers.

/** @typedef {import("./messages.d.ts").BoardModel} BoardModel */
/** @typedef {import("./messages.d.ts").BoardAnswer} BoardAnswer */

const PATIENCE_MS = 1500; // after which a kernel that did not answer is called busy
const HELLO_MS = 400;
const LONGEST_HELLO_MS = 10_000;
const HEARTBEAT_MS = 20_000;

export class BoardLine {
  /**
   * @param {BoardModel} model
   * @param {(isBusy: boolean) => void} onBusy
   */
  constructor(model, onBusy) {
    this.model = model;
    this.onBusy = onBusy;
    /** @type {Map<string, {give: (answer: BoardAnswer) => void, timer: ReturnType<typeof setTimeout>}>} */
    this.pending = new Map();
    /** @type {(content: any) => void} */
    this.onNews = () => {};
    this.count = 0;
    this.isAnswered = false; // the kernel has said something
    this.isLost = false; // it never will again
    this.page = Math.random().toString(36).slice(2); // a name that no other page has
    this.take = (/** @type {any} */ content) => this.#take(content);
    model.on("msg:custom", this.take);
    this.heartbeat = setInterval(() => this.tell({ kind: "alive", page: this.page }), HEARTBEAT_MS);
    this.#hello(HELLO_MS);
  }

  /**
   * Sends a request and gives the answer, however late.
   * @param {Record<string, unknown>} content
   * @returns {Promise<BoardAnswer>}
   */
  ask(content) {
    const id = `${Date.now()}-${(this.count += 1)}`;
    return new Promise((give) => {
      this.pending.set(id, { give, timer: setTimeout(() => this.onBusy(true), PATIENCE_MS) });
      this.tell({ ...content, id });
    });
  }

  /**
   * Tells the kernel something that needs no answer.
   * @param {Record<string, unknown>} content
   */
  tell(content) {
    if (this.isLost) return;
    try {
      this.model.send(content);
    } catch {
      this.onBusy(true); // the kernel is gone: the view keeps showing what it has
    }
  }

  /** The kernel is gone: nothing more is said. */
  lose() {
    this.isLost = true;
    clearInterval(this.heartbeat);
    clearTimeout(this.greeting);
    for (const { timer } of this.pending.values()) clearTimeout(timer);
  }

  /** Says that nobody looks any more. */
  close() {
    clearInterval(this.heartbeat);
    clearTimeout(this.greeting);
    for (const { timer } of this.pending.values()) clearTimeout(timer);
    this.tell({ kind: "bye", page: this.page, turn: 1 });
    this.model.off("msg:custom", this.take);
  }

  /** @param {number} delay after which it is said again */
  #hello(delay) {
    // The first one may be stuck behind a running cell: it can come before the page has its own line to the kernel.
    this.greeting = setTimeout(() => this.#hello(Math.min(LONGEST_HELLO_MS, delay * 1.5)), delay);
    this.tell({ kind: "ready", page: this.page, turn: 1 });
  }

  /** @param {any} content */
  #take(content) {
    clearTimeout(this.greeting);
    this.isAnswered = true;
    if (content.kind !== "answer") {
      this.onNews(content);
      return;
    }
    const waiting = this.pending.get(content.id);
    if (!waiting) return;
    this.pending.delete(content.id);
    clearTimeout(waiting.timer);
    this.onBusy(false);
    waiting.give(content);
  }
}

// The connection of a view to its kernel, or to the server or recording in place of one: greetings, messages, requests; and
// the view's texts about it.

import { replaceOutputs } from "./snapshot.js";

/** @typedef {import("./messages.d.ts").Host} Host */
/** @typedef {import("./messages.d.ts").Reply} Reply */
/** @typedef {{content: Record<string, unknown>, patience: ReturnType<typeof setTimeout>, resolve: (reply: Reply) => void}} PendingRequest */

const PATIENCE_MS = 1500; // without a reply, after which the kernel counts as busy
const HELLO_MS = 400;
const MAX_HELLO_MS = 10_000;
const HEARTBEAT_MS = 20_000;
const ONCE = "again"; // the kind of request that is never sent twice
const UNKNOWN = "connection lost: the list of jobs shows whether it was submitted";

/** Greets the kernel until it sends something, sends requests, and reports when the kernel is busy or gone. */
export class KernelConnection {
  /**
   * @param {Host} host
   * @param {{message: (content: any, buffers: DataView[]) => void, busy: () => void, lost: () => void, more?: (kind: "ready" | "alive") => object}} on
   *   `busy`: called when `isBusy` has changed; `more`: returns further fields of a greeting or a heartbeat
   */
  constructor(host, on) {
    this.host = host;
    this.on = on;
    this.page = Math.random().toString(36).slice(2); // a random page id
    this.turn = 0; // number of times that the view was added to the page
    this.isOpen = false; // the view is in the page
    this.isAnswered = false; // the kernel has sent something
    this.isBusy = false;
    this.isLost = false; // the kernel is gone
    this.count = 0;
    /** @type {Map<string, PendingRequest>} */
    this.pending = new Map();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.greeting = undefined;
    /** @type {[string, (...values: any[]) => void][]} */
    this.listeners = [
      ["msg:custom", (content, buffers) => this.#take(content, buffers)],
      ["lost", () => this.#lose()],
      ["connected", () => (this.hello(), this.#askAgain())],
    ];
    for (const [event, listener] of this.listeners) host.on(event, listener);
    this.heartbeat = setInterval(() => this.#report("alive"), HEARTBEAT_MS);
  }

  /** Tells the kernel that the view was added to the page. */
  enter() {
    this.isOpen = true;
    this.turn += 1;
    this.hello();
  }

  /** Says hello repeatedly until the kernel sends something. */
  hello(delay = HELLO_MS) {
    clearTimeout(this.greeting);
    if (!this.isOpen || this.isLost) return;
    // The first one may be queued behind a running cell, if the page has no subshell yet.
    this.greeting = setTimeout(() => this.hello(Math.min(MAX_HELLO_MS, delay * 1.5)), delay);
    this.#report("ready");
  }

  /** Tells the kernel that the view was removed from the page. */
  leave() {
    this.isOpen = false;
    clearTimeout(this.greeting);
    this.tell({ kind: "bye", page: this.page, turn: this.turn });
  }

  /**
   * Sends a request; resolves with the reply, which may be late, or never come if the kernel is gone.
   * @param {Record<string, unknown>} content
   * @returns {Promise<Reply>}
   */
  ask(content) {
    return new Promise((resolve) => {
      if (this.isLost) return;
      const id = `${this.page}-${(this.count += 1)}`;
      const patience = setTimeout(() => this.#setBusy(true), PATIENCE_MS);
      this.pending.set(id, { content, patience, resolve });
      this.tell({ ...content, id });
    });
  }

  /** Sends a message that needs no reply. @param {Record<string, unknown>} content */
  tell(content) {
    if (this.isLost) return;
    try {
      this.host.send(content);
    } catch {
      this.#setBusy(true); // the kernel is gone: the view keeps showing what it has
    }
  }

  /** Stops timers and listeners. */
  close() {
    this.#stop();
    for (const [event, listener] of this.listeners) this.host.off(event, listener);
  }

  #stop() {
    clearInterval(this.heartbeat);
    clearTimeout(this.greeting);
    for (const { patience } of this.pending.values()) clearTimeout(patience);
  }

  #lose() {
    this.#stop();
    this.isLost = true;
    this.on.lost();
  }

  /** @param {"ready" | "alive"} kind */
  #report(kind) {
    this.tell({ kind, page: this.page, ...(kind === "ready" ? { turn: this.turn } : {}), ...this.on.more?.(kind) });
  }

  /** Sends all open requests again, since their replies were lost with the connection; a job is not submitted twice. */
  #askAgain() {
    for (const [id, { content }] of [...this.pending]) {
      if (content.kind === ONCE) this.#settle({ id, text: UNKNOWN }, []);
      else this.tell({ ...content, id });
    }
  }

  /** @type {(content: any, buffers: DataView[]) => void} */
  #take(content, buffers) {
    this.isAnswered = true;
    if (content.kind === "reply") return this.#settle(content, buffers);
    clearTimeout(this.greeting);
    if (content.kind === "outputs") return replaceOutputs(this.host.get("cells"), content.model_id, content.outputs);
    this.on.message(content, buffers);
  }

  /** Resolves the promise of a request; replies to other pages have other ids. @type {(content: any, buffers: DataView[]) => void} */
  #settle(content, buffers) {
    const request = this.pending.get(content.id);
    if (!request) return;
    this.pending.delete(content.id);
    clearTimeout(request.patience);
    this.#setBusy(false);
    request.resolve({ content, buffers });
  }

  /** @param {boolean} isBusy */
  #setBusy(isBusy) {
    if (isBusy === this.isBusy || this.isLost) return; // no reply will come
    this.isBusy = isBusy;
    this.on.busy();
  }
}

export const BUSY = "The kernel is busy: it answers when the cell ends. Interrupt the cell to respond now.";
const GONE = "The connection to the kernel is gone. Run the cell to see the";
const CLOSED = "The page is closed. Run batchai open to see the";

/**
 * The message of a view whose kernel is gone, or the server of its page.
 * @param {string} what the view shows
 * @param {unknown} isPage whether it is a plain page
 */
export const gone = (what, isPage) => `${isPage ? CLOSED : GONE} ${what} again.`;

/**
 * Tells the kernel whether the pointer or focus is in the view, so that the view is not frozen while in use.
 * @param {HTMLElement} view
 * @param {(content: Record<string, unknown>) => void} tell
 */
export function holdWhileUsed(view, tell) {
  let isHeld = false;
  const update = () => {
    const isUsed = view.matches(":hover") || view.contains(document.activeElement);
    if (isUsed === isHeld) return;
    isHeld = isUsed;
    tell({ kind: "hold", on: isUsed });
  };
  for (const event of ["pointerenter", "pointerleave", "focusin", "focusout"]) {
    view.addEventListener(event, () => setTimeout(update));
  }
}

// Requests that the kernel has not answered yet: one at a time for each id.

/** @typedef {import("../core/messages.d.ts").Reply} Reply */

const PATIENCE_MS = 1500; // without an answer, after which the kernel counts as busy

export class PendingRequests {
  /** @param {{send: (content: Record<string, unknown>) => void, setBusy: (isBusy: boolean) => void}} on */
  constructor(on) {
    this.on = on;
    this.count = 0;
    /** @type {Map<string, (reply: Reply) => void>} */
    this.waiting = new Map();
    /** @type {Map<string, ReturnType<typeof setTimeout>>} */
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
    const giveUp = setTimeout(() => this.on.setBusy(true), PATIENCE_MS);
    this.pending.set(id, giveUp);
    this.on.send({ ...content, id });
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
    clearTimeout(this.pending.get(id));
    this.pending.delete(id);
    this.on.setBusy(false);
  }

  /** Stops waiting for answers. */
  stop() {
    for (const timer of this.pending.values()) clearTimeout(timer);
  }
}

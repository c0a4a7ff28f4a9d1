// What the kernel was asked and has not answered yet: one question at a time for each place.

/** @typedef {import("./messages.d.ts").Reply} Reply */

const PATIENCE_MS = 1500; // after which a kernel that did not answer is called busy

export class Questions {
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
   * A question that is to be asked, and its answer.
   * @returns {{id: string, answered: Promise<Reply>}}
   */
  next() {
    this.count += 1;
    const id = `q${this.count}`;
    return { id, answered: new Promise((resolve) => this.waiting.set(id, resolve)) };
  }

  /**
   * Sends a request, unless it has been sent and is not answered yet.
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
   * Gives a reply to whoever waits for it.
   * @param {string} id
   * @param {() => Reply} reply
   * @returns {boolean} whether anybody does
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
   * Notes that a question was answered.
   * @param {string} id
   */
  settle(id) {
    clearTimeout(this.pending.get(id));
    this.pending.delete(id);
    this.on.setBusy(false);
  }

  /** No answer is waited for any more. */
  stop() {
    for (const timer of this.pending.values()) clearTimeout(timer);
  }
}

// The choices that the user made in the view of a job: the tab, the charts, their axis. The browser stores them, and the
// view of the same run opens with them.

/** @typedef {import("../core/messages.d.ts").JobFacts} JobFacts */

/**
 * @typedef {{tab?: string, titles?: string[], shown?: string[], over?: import("../core/x_scales.js").XName, weight?: number}} ViewState
 *   `shown`: the charts that are drawn, of those with these `titles`; `weight`: of smoothing
 */

const STORAGE_KEY = "batchai-views";
const MAX_JOBS = 100; // of which choices are stored

export class ViewMemory {
  /**
   * @param {JobFacts} facts
   * @param {() => Pick<Storage, "getItem" | "setItem">} storage which a browser may refuse
   */
  constructor({ experiment, name, created, directories }, storage = () => localStorage) {
    this.storage = storage;
    this.key = directories?.length ? `${experiment}/${name}/${created}` : ""; // a recording has none
    /** @type {ViewState} */
    this.state = this.#read()[this.key] ?? {};
  }

  /** @param {ViewState} change */
  keep(change) {
    const now = { ...this.state, ...change };
    if (!this.key || JSON.stringify(now) === JSON.stringify(this.state)) return;
    this.state = now;
    const { [this.key]: _, ...others } = this.#read();
    const newest = [...Object.entries(others).slice(1 - MAX_JOBS), [this.key, now]];
    try {
      this.storage().setItem(STORAGE_KEY, JSON.stringify(Object.fromEntries(newest)));
    } catch {
      // The storage is full or switched off: next time, the view opens without the choices.
    }
  }

  /** @returns {Record<string, ViewState>} */
  #read() {
    try {
      return JSON.parse(this.storage().getItem(STORAGE_KEY) ?? "{}") ?? {};
    } catch {
      return {};
    }
  }
}

// What the hosts of plain pages have in common: a state by name, and listeners.

/** @typedef {import("../core/messages.d.ts").Host} Host */
/** @typedef {(...values: any[]) => void} Listener */

/** @implements {Host} */
export class StateHost {
  /** @type {Record<string, any>} */
  state = { view_id: "", embed: null };
  /** @type {Map<string, Set<Listener>>} */
  #listeners = new Map();

  /** @param {string} name */
  get(name) {
    return this.state[name];
  }

  /** @type {(event: string, listener: Listener) => void} */
  on(event, listener) {
    const known = this.#listeners.get(event);
    if (known) known.add(listener);
    else this.#listeners.set(event, new Set([listener]));
  }

  /** @type {(event: string, listener: Listener) => void} */
  off(event, listener) {
    this.#listeners.get(event)?.delete(listener);
  }

  /** @param {Record<string, unknown>} _content */
  send(_content) {}

  /** @type {(event: string, ...values: any[]) => void} */
  emit(event, ...values) {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) listener(...values);
  }

  /**
   * Replaces parts of the state; listeners are called after all of them are replaced.
   * @param {Record<string, any>} values
   */
  setState(values) {
    Object.assign(this.state, values);
    for (const name of Object.keys(values)) this.emit(`change:${name}`);
  }
}

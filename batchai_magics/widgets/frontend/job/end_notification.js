// A notification of the browser when the job ends, if the user asks for one in this page.

import { el } from "../core/dom.js";

export class EndNotification {
  #isWanted = false;
  #wasRunning = false;

  constructor() {
    const title = "Show a browser notification when the job ends; keep this page open";
    /** Asks for it; hidden where the browser has no notifications, and once the job has ended. */
    this.element = el("button", { type: "button", class: "ba-button ba-notify", title, hidden: true, click: () => this.#toggle() });
    this.element.textContent = "Notify me";
    this.element.setAttribute("aria-pressed", "false");
  }

  /**
   * Takes the state of the job; notifies when it is the first final one since the job ran.
   *
   * @param {string} name
   * @param {string} state
   * @param {boolean} isFinal
   * @param {string} reason why it failed; empty if it did not
   */
  update(name, state, isFinal, reason) {
    this.element.hidden = isFinal || !isPossible();
    if (isFinal && this.#wasRunning && this.#isWanted) show(`${name} has ${state === "succeeded" ? "succeeded" : "ended"}`, reason || state, name);
    this.#wasRunning = !isFinal;
  }

  async #toggle() {
    const isAsked = !this.#isWanted;
    this.#isWanted = isAsked && (await Notification.requestPermission()) === "granted";
    this.element.setAttribute("aria-pressed", String(this.#isWanted));
    this.element.hidden = !isPossible();
  }
}

function isPossible() {
  return typeof Notification !== "undefined" && Notification.permission !== "denied";
}

/**
 * @param {string} title
 * @param {string} body
 * @param {string} tag notifications with the same tag replace each other: several views show one
 */
function show(title, body, tag) {
  try {
    new Notification(title, { body, tag: `batchai-${tag}` });
  } catch {
    // some browsers, as those of phones, have the class and refuse to construct it
  }
}

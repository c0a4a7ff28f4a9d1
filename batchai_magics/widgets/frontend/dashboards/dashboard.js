// The base of all dashboards: the article in the page, the connection to the kernel, a status note.

import { el, setText } from "../core/dom.js";
import { BUSY, gone, holdWhileUsed } from "../core/kernel.js";
import { hideSnapshot } from "../core/snapshot.js";
import { kernelHost } from "../hosts/kernel_host.js";

/** @typedef {import("../core/messages.d.ts").Host} Host */
/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */
/** @typedef {import("../core/messages.d.ts").DashboardAnswer} DashboardAnswer */

const PATIENCE_MS = 1500; // without an answer, after which the kernel counts as busy
const HELLO_MS = 400;
const MAX_HELLO_MS = 10_000;
const HEARTBEAT_MS = 20_000;

/** Greets the kernel, sends heartbeats and requests, and reports when nobody answers. */
class KernelConnection {
  /**
   * @param {Host} host
   * @param {(isBusy: boolean) => void} onBusy
   */
  constructor(host, onBusy) {
    this.host = host;
    this.onBusy = onBusy;
    /** @type {Map<string, {give: (answer: DashboardAnswer) => void, timer: ReturnType<typeof setTimeout>}>} */
    this.pending = new Map();
    /** @type {(content: any) => void} */
    this.onMessage = () => {};
    this.count = 0;
    this.isAnswered = false; // the kernel has sent something
    this.isLost = false; // the kernel is gone
    this.page = Math.random().toString(36).slice(2); // a random page id
    this.take = (/** @type {any} */ content) => this.#take(content);
    this.greet = () => this.#hello(HELLO_MS);
    host.on("msg:custom", this.take);
    host.on("connected", this.greet);
    this.heartbeat = setInterval(() => this.tell({ kind: "alive", page: this.page }), HEARTBEAT_MS);
    this.#hello(HELLO_MS);
  }

  /**
   * Sends a request; resolves with the answer, which may be late.
   * @param {Record<string, unknown>} content
   * @returns {Promise<DashboardAnswer>}
   */
  ask(content) {
    const id = `${Date.now()}-${(this.count += 1)}`;
    return new Promise((give) => {
      this.pending.set(id, { give, timer: setTimeout(() => this.onBusy(true), PATIENCE_MS) });
      this.tell({ ...content, id });
    });
  }

  /**
   * Sends a message that needs no answer.
   * @param {Record<string, unknown>} content
   */
  tell(content) {
    if (this.isLost) return;
    try {
      this.host.send(content);
    } catch {
      this.onBusy(true); // the kernel is gone: the view keeps showing what it has
    }
  }

  /** Stops sending: the kernel is gone. */
  lose() {
    this.isLost = true;
    clearInterval(this.heartbeat);
    clearTimeout(this.greeting);
    for (const { timer } of this.pending.values()) clearTimeout(timer);
  }

  /** Tells the kernel that the view was removed. */
  close() {
    clearInterval(this.heartbeat);
    clearTimeout(this.greeting);
    for (const { timer } of this.pending.values()) clearTimeout(timer);
    this.tell({ kind: "bye", page: this.page, turn: 1 });
    this.host.off("msg:custom", this.take);
    this.host.off("connected", this.greet);
  }

  /** @param {number} delay until the next attempt */
  #hello(delay) {
    clearTimeout(this.greeting);
    // The first one may be queued behind a running cell, if the page has no subshell yet.
    this.greeting = setTimeout(() => this.#hello(Math.min(MAX_HELLO_MS, delay * 1.5)), delay);
    this.tell({ kind: "ready", page: this.page, turn: 1 });
  }

  /** @param {any} content */
  #take(content) {
    clearTimeout(this.greeting);
    this.isAnswered = true;
    if (content.kind !== "answer") {
      this.onMessage(content);
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

const REQUESTING = ".ba-scale :is(button, input, select), .ba-open, .ba-compare, .ba-tick"; // controls that send requests

export class Dashboard {
  /** Called when the kernel is gone. */
  onLost = () => {};

  /** @type {(() => void)[]} */
#cleanups = [];

  /**
   * @param {KernelModel} model
   * @param {string} noun what the dashboard shows, for messages
   */
  constructor(model, noun) {
    this.host = kernelHost(model);
    this.noun = noun;
    this.note = el("span", { class: "ba-note", role: "status" });
    this.connection = new KernelConnection(this.host, (isBusy) => setText(this.note, isBusy ? BUSY : ""));
  }

  /**
   * Adds the view to the page and hides its snapshot.
   * @param {HTMLElement} root
   * @param {string} label
   * @param {...Node} parts
   */
  show(root, label, ...parts) {
    const view = el("article", { class: "ba-view ba-dashboard", "aria-label": label, "data-lm-suppress-shortcuts": "true" }, ...parts);
    holdWhileUsed(view, (content) => this.connection.tell(content));
    const showSnapshot = hideSnapshot(this.host.get("view_id"), view, () => this.connection.isAnswered);
    root.append(view);
    const onLost = () => this.#onKernelLost(view);
    this.host.on("lost", onLost);
    this.#cleanups.push(showSnapshot, () => this.host.off("lost", onLost), () => view.remove());
  }

  /**
   * Calls `update` now and whenever one of the traits changes.
   * @param {string[]} traits
   * @param {() => void} update
   */
  watch(traits, update) {
    for (const trait of traits) {
      this.host.on(`change:${trait}`, update);
      this.#cleanups.push(() => this.host.off(`change:${trait}`, update));
    }
    update();
  }

  /** @param {HTMLElement} view */
  #onKernelLost(view) {
    this.connection.lose();
    setText(this.note, gone(this.noun, this.host.get("link")));
    for (const control of view.querySelectorAll(REQUESTING)) /** @type {HTMLButtonElement} */ (control).disabled = true;
    for (const badge of view.querySelectorAll(".ba-badge")) /** @type {HTMLElement} */ (badge).dataset.lost = "true";
    this.onLost();
  }

  /** Removes the view from the page and tells the kernel. */
  close() {
    this.connection.close();
    for (const end of this.#cleanups) end();
  }
}

/** A paragraph for each sentence; unchanged ones keep a selection in them. */
export function sentenceList() {
  const element = el("div", { class: "ba-sentences" });
  /** @param {string[]} sentences */
  const update = (sentences) => {
    if (element.dataset.text === sentences.join("\n")) return;
    element.dataset.text = sentences.join("\n");
    element.replaceChildren(...sentences.map((sentence) => el("p", {}, sentence)));
  };
  return { element, update };
}

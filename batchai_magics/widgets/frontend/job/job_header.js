// The header of the view: state, name, facts, elapsed time, buttons.

import { copyText, el, setText } from "../core/dom.js";
import { duration, SECOND_MS, span } from "../core/format.js";
import { BUSY, gone } from "../core/kernel.js";

/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("../core/messages.d.ts").JobFacts} JobFacts */

const NOTE_MS = 6000;
const FINAL = ["succeeded", "failed", "cancelled", "stopped"];
const DAY_S = 86_400; // a time limit further away than this is not shown

export class JobHeader {
  #badge = el("span", { class: "ba-badge" });
  #name = el("strong", { class: "ba-name" });
  #facts = el("span", { class: "ba-facts" });
  #elapsed = el("span", { class: "ba-elapsed", role: "timer", "aria-label": "elapsed time" });
  #left = el("span", { class: "ba-left" });
  #exit = el("span", { class: "ba-exit" });
  #spoken = el("span", { class: "ba-spoken", "aria-live": "polite" });

  /**
   * @param {JobSession} session
   * @param {(model: string) => void} open shows another job's view below this one
   */
  constructor(session, open) {
    this.session = session;
    this.buttons = new Buttons(session, open);
    this.notification = new EndNotification();
    /** Why the job failed or updates stopped; placed below so that it causes no layout shift. */
    this.problem = el("div", { class: "ba-problem", hidden: true });
    const title = el("div", { class: "ba-title" }, this.#badge, this.#name, this.#facts);
    const status = el("div", { class: "ba-status" }, this.#exit, this.#elapsed, this.#left, this.notification.element, this.buttons.element);
    this.element = el("header", { class: "ba-header" }, title, status, this.#spoken);
    this.ticking = setInterval(() => this.#tick(this.#read()), SECOND_MS);
    this.stopListening = session.listen((kind) => {
      if (kind !== "lost") return;
      clearInterval(this.ticking); // no more updates will come
      this.#badge.dataset.lost = "true";
    });
  }

  /** Shows the current state of the job. */
  update() {
    const now = this.#read();
    setText(this.#badge, now.state);
    this.#badge.dataset.state = now.state;
    setText(this.#name, now.name);
    setText(this.#facts, describe(now));
    this.#facts.title = `experiment ${now.experiment}, toolkit ${now.toolkit}`;
    this.#showEnd(now);
    const verb = ["succeeded", "failed"].includes(now.state) ? "" : FINAL.includes(now.state) ? "was " : "is ";
    setText(this.#spoken, `Job ${now.name} ${verb}${now.state}.`);
    this.buttons.update(now);
    this.notification.update(now.name, now.state, FINAL.includes(now.state), reasonsOf(now).join("  ·  "));
    this.#tick(now);
  }

  /** Stops timers and listeners. */
  stop() {
    clearInterval(this.ticking);
    this.stopListening();
    this.buttons.stop();
  }

  #read() {
    return /** @type {JobFacts} */ (this.session.host.get("facts"));
  }

  /** @param {JobFacts} now */
  #showEnd(now) {
    const hasExit = now.exit_code !== null;
    setText(this.#exit, hasExit ? `exit code ${now.exit_code}` : "");
    this.#exit.dataset.failed = String(hasExit && now.exit_code !== 0);
    const reasons = reasonsOf(now);
    const text = [...reasons, ...warningsOf(now)].join("  ·  ");
    this.problem.hidden = !text;
    this.problem.dataset.warning = String(!reasons.length);
    setText(this.problem, text);
    this.problem.title = text;
  }

  /** @param {JobFacts} now */
  #tick(now) {
    const isWaiting = now.started === null && now.ended === null;
    setText(this.#elapsed, `${isWaiting ? "waiting " : ""}${duration(elapsedSeconds(now))}`);
    const rest = now.started === null || now.ended !== null ? null : now.max_s - elapsedSeconds(now);
    setText(this.#left, now.saving ? now.saving : rest === null || rest > DAY_S ? "" : `${span(rest)} left`);
    this.#left.title = `The job is stopped after ${span(now.max_s)}`;
    this.#left.dataset.short = String(rest !== null && rest < now.max_s / 10);
  }
}

/** @param {JobFacts} facts */
function describe(facts) {
  const nodes = `${facts.nodes} node${facts.nodes === 1 ? "" : "s"}`;
  const perNode = facts.processes / facts.nodes;
  const spread = Number.isInteger(perNode) ? `${nodes} × ${perNode}` : `${nodes}, ${facts.processes}`;
  const again = facts.attempt > 1 ? `  ·  attempt ${facts.attempt}` : "";
  return `${facts.cluster}  ·  ${spread} process${perNode === 1 || facts.processes === 1 ? "" : "es"}${again}`;
}

/** Why the job failed, or why updates stopped. @param {JobFacts} facts */
function reasonsOf(facts) {
  const failure = facts.state === "failed" ? facts.failure : null;
  const reasons = failure ? [failure.cause, ...failure.hints] : facts.errors.map((error) => error.message);
  return [facts.problem, ...reasons].filter(Boolean);
}

/**
 * What did not fail the job: earlier attempts, a standstill, incomplete logs, values that are not numbers.
 * @param {JobFacts} facts
 */
function warningsOf(facts) {
  const warnings = [...(facts.warnings ?? []), ...facts.log_faults, ...facts.metric_notices];
  const standstill = facts.standstill ? [facts.standstill] : [];
  return [...facts.before, ...standstill, ...warnings.map((warning) => `Warning: ${warning}`)];
}

/** @param {JobFacts} facts */
function elapsedSeconds(facts) {
  const start = facts.started ?? facts.created;
  return ((facts.ended ?? Date.now()) - start) / SECOND_MS;
}

/** The buttons: cancel (with confirmation), detach, run again, copy; and a note if the kernel is busy. */
class Buttons {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #noting;
  #isFinal = false;
  #note = el("span", { class: "ba-note", "aria-live": "polite" });
  #cancel = button("Cancel job", () => this.#ask(true));
  #detach = button("Stop watching", () => void this.#request("detach"), "The job keeps running");
  #again = button("Run again", () => this.#runAgain(), "Submit the job again, under the next name");
  #copy = button('Copy "show" command', () => this.#copied(), "Copy the command that shows this job");
  #yes = button("Yes, cancel it", () => this.#confirmed());
  #no = button("Keep running", () => this.#ask(false));
  #plain = el("span", { class: "ba-choice" }, this.#cancel, this.#detach);
  #sure = el("span", { class: "ba-choice", hidden: true, keydown: (/** @type {KeyboardEvent} */ { key }) => key === "Escape" && this.#ask(false) }, this.#yes, this.#no);

  /**
   * @param {JobSession} session
   * @param {(model: string) => void} open shows another job's view below this one
   */
  constructor(session, open) {
    this.session = session;
    this.open = open;
    this.#again.hidden = true;
    this.#detach.classList.add("ba-detach");
    this.#detach.append(el("span", { class: "ba-detach-more" }, " (job keeps running)"));
    this.element = el("span", { class: "ba-buttons" }, this.#note, this.#again, this.#copy, this.#plain, this.#sure);
    this.#yes.classList.add("ba-danger");
    this.stopListening = session.listen((kind, text) => this.#hear(kind, text));
  }

  /** @param {JobFacts} facts */
  update(facts) {
    this.#isFinal = FINAL.includes(facts.state);
    this.#cancel.hidden = facts.is_read_only;
    this.#cancel.disabled = this.#isFinal || this.session.isKernelLost;
    setText(this.#cancel, facts.saving ? "Kill now" : "Cancel job");
    setText(this.#yes, facts.saving ? "Yes, kill it" : "Yes, cancel it");
    if (this.#isFinal) this.#ask(false);
    this.#plain.hidden = this.#isFinal || !this.#sure.hidden;
    if (this.#isFinal) setText(this.#note, "");
    this.#again.hidden = !(this.#isFinal && facts.can_again);
  }

  /** Stops timers and listeners. */
  stop() {
    clearTimeout(this.#noting);
    this.stopListening();
  }

  /** @param {boolean} isAsking whether to show the confirmation, which stays until it is answered */
  #ask(isAsking) {
    const hadFocus = this.element.contains(document.activeElement);
    this.#plain.hidden = isAsking || this.#isFinal;
    this.#sure.hidden = !isAsking;
    if (hadFocus) (isAsking ? this.#no : this.#cancel).focus({ preventScroll: true });
  }

  #confirmed() {
    this.#ask(false);
    this.#cancel.disabled = true;
    setText(this.#note, "cancelling …");
    void this.#request("cancel");
  }

  /** @param {string} kind of the request, whose reply may have a text to show */
  async #request(kind) {
    const { content } = await this.session.request({ kind });
    this.#say(content.text);
  }

  /** @param {string} text */
  #say(text) {
    if (!text) return;
    setText(this.#note, text);
    this.#cancel.disabled = this.#isFinal;
  }

  async #runAgain() {
    this.#again.disabled = true;
    setText(this.#note, "submitting …");
    const { content } = await this.session.request({ kind: "again" });
    this.#again.disabled = false;
    setText(this.#note, content.text);
    if (content.model) this.open(content.model);
  }

  async #copied() {
    const command = this.session.host.get("facts").way_back;
    setText(this.#note, (await copyText(command)) ? "copied" : command);
    this.#noting = setTimeout(() => setText(this.#note, ""), NOTE_MS);
  }

  /**
   * @param {string} kind
   * @param {string} text
   */
  #hear(kind, text) {
    if (kind === "busy") {
      setText(this.#note, this.session.isKernelBusy ? BUSY : "");
    } else if (kind === "lost") {
      this.#ask(false);
      for (const dead of [this.#cancel, this.#detach, this.#again]) dead.disabled = true;
      setText(this.#note, gone("job", this.session.host.get("link")));
    } else if (kind === "note") this.#say(text);
  }
}

/**
 * @param {string} text
 * @param {() => void} click
 * @param {string} [title]
 */
function button(text, click, title) {
  return el("button", { type: "button", class: "ba-button", title, click }, text);
}

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

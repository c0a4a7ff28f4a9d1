// The head of the view: state, name, facts, elapsed time, buttons.

import { copyText } from "../core/clipboard.js";
import { el, setText } from "../core/dom.js";
import { duration, span } from "../core/format.js";
import { BUSY, GONE } from "../core/kernel.js";
import { failureTitle } from "./failure.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./messages.d.ts").Facts} Facts */

const CONFIRM_MS = 6000;
const SECOND_MS = 1000;
const DAY_S = 86_400; // a limit that is further off than this is nobody's concern yet

/**
 * @param {Session} session
 * @returns {{element: HTMLElement, problem: HTMLElement, update: () => void, stop: () => void}} `problem`: why the
 *   job failed, or nothing new comes; it belongs where it moves nothing
 */
export function header(session) {
  const badge = el("span", { class: "ba-badge" });
  const name = el("strong", { class: "ba-name" });
  const facts = el("span", { class: "ba-facts" });
  const elapsed = el("span", { class: "ba-elapsed", role: "timer", "aria-label": "elapsed time" });
  const left = el("span", { class: "ba-left" });
  const exit = el("span", { class: "ba-exit" });
  const spoken = el("span", { class: "ba-spoken", "aria-live": "polite" });
  const controls = buttons(session);
  const problem = el("div", { class: "ba-problem", hidden: true });
  const element = el(
    "header",
    { class: "ba-header" },
    el("div", { class: "ba-title" }, badge, name, facts),
    el("div", { class: "ba-status" }, exit, elapsed, left, controls.element),
    spoken,
  );

  const read = () => /** @type {Facts} */ (session.model.get("facts"));
  const tick = () => {
    const now = read();
    const isWaiting = now.started === null && now.ended === null;
    setText(elapsed, `${isWaiting ? "waiting " : ""}${duration(elapsedSeconds(now))}`);
    const rest = now.started === null || now.ended !== null ? null : now.max_s - elapsedSeconds(now);
    setText(left, rest === null || rest > DAY_S ? "" : `${span(rest)} left`);
    left.title = `The job is ended after ${span(now.max_s)}`;
    left.dataset.short = String(rest !== null && rest < now.max_s / 10);
  };
  const update = () => {
    const now = read();
    setText(badge, now.state);
    badge.dataset.state = now.state;
    setText(name, now.name);
    setText(facts, describe(now));
    facts.title = `experiment ${now.experiment}, toolkit ${now.toolkit}`;
    const hasExit = now.exit_code !== null;
    setText(exit, hasExit ? `exit code ${now.exit_code}` : "");
    exit.dataset.failed = String(hasExit && now.exit_code !== 0);
    const reason = reasonOf(now);
    problem.hidden = !reason;
    setText(problem, reason);
    problem.title = reason;
    setText(spoken, `Job ${now.name} is ${now.state}.`);
    controls.update(now);
    tick();
  };
  const timer = setInterval(tick, SECOND_MS);
  const stop = () => {
    clearInterval(timer);
    controls.stop();
  };
  return { element, problem, update, stop };
}

/** @param {Facts} facts */
function describe(facts) {
  const nodes = `${facts.nodes} node${facts.nodes === 1 ? "" : "s"}`;
  const each = facts.processes / facts.nodes;
  const spread = Number.isInteger(each) ? `${nodes} × ${each}` : `${nodes}, ${facts.processes}`;
  return `${facts.cluster}  ·  ${spread} process${each === 1 || facts.processes === 1 ? "" : "es"}`;
}

/** @param {Facts} facts */
function reasonOf(facts) {
  const first = facts.state === "failed" ? facts.first_failure : null;
  const reasons = first ? [failureTitle(first)] : facts.errors.map((error) => error.message);
  return [facts.problem, ...reasons].filter(Boolean).join("  ·  ");
}

/** @param {Facts} facts */
function elapsedSeconds(facts) {
  const start = facts.started ?? facts.created;
  return ((facts.ended ?? Date.now()) - start) / SECOND_MS;
}

/**
 * Cancel (asks once) and detach; both say so when the kernel cannot hear them.
 * @param {Session} session
 * @returns {{element: HTMLElement, update: (facts: Facts) => void, stop: () => void}}
 */
function buttons(session) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let noting;
  let isFinal = false;
  const note = el("span", { class: "ba-note", "aria-live": "polite" });
  const cancel = el("button", { type: "button", class: "ba-button", click: () => ask(true) }, "Cancel job");
  const detach = el(
    "button",
    {
      type: "button",
      class: "ba-button",
      title: "Stop watching. The job runs on.",
      click: () => session.ask("detach", { kind: "detach" }),
    },
    "Detach",
  );
  const copy = el(
    "button",
    { type: "button", class: "ba-button", title: "Copy the command that shows this job again", click: () => copied() },
    "Copy command",
  );
  const yes = el("button", { type: "button", class: "ba-button ba-danger", click: () => confirmed() }, "Yes, cancel it");
  const no = el("button", { type: "button", class: "ba-button", click: () => ask(false) }, "Keep running");
  const plain = el("span", { class: "ba-choice" }, cancel, detach);
  const sure = el("span", { class: "ba-choice", hidden: true }, yes, no);
  const element = el("span", { class: "ba-buttons" }, note, copy, plain, sure);

  /** @param {boolean} isAsking */
  const ask = (isAsking) => {
    clearTimeout(timer);
    const hadFocus = element.contains(document.activeElement);
    plain.hidden = isAsking;
    sure.hidden = !isAsking;
    if (hadFocus) (isAsking ? no : cancel).focus({ preventScroll: true });
    if (isAsking) timer = setTimeout(() => ask(false), CONFIRM_MS);
  };
  const copied = async () => {
    const command = session.model.get("facts").way_back;
    setText(note, (await copyText(command)) ? "copied" : command);
    noting = setTimeout(() => setText(note, ""), CONFIRM_MS);
  };
  const confirmed = () => {
    ask(false);
    cancel.disabled = true;
    setText(note, "cancelling …");
    session.ask("cancel", { kind: "cancel" });
  };
  const stopListening = session.listen((kind, text) => {
    if (kind === "busy") {
      setText(note, session.isKernelBusy ? BUSY : "");
    } else if (kind === "lost") {
      setText(note, GONE);
    } else if (kind === "answer" && text) {
      setText(note, text);
      cancel.disabled = isFinal;
    }
  });
  /** @param {Facts} facts */
  const update = (facts) => {
    isFinal = facts.state === "succeeded" || facts.state === "failed";
    cancel.disabled = isFinal || facts.state === "terminating";
    if (isFinal) ask(false);
    plain.hidden = isFinal || !sure.hidden;
    if (isFinal) setText(note, "");
  };
  const stop = () => {
    clearTimeout(timer);
    clearTimeout(noting);
    stopListening();
  };
  return { element, update, stop };
}

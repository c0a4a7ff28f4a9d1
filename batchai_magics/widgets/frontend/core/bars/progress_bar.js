// How far a job is, or came: a bar with the job's own words and the time that is left.

import { el, setText } from "../dom.js";
import { span } from "../format.js";

/** @typedef {import("../messages.d.ts").Progress} Progress */

const SECOND_MS = 1000;

const ENDED = ["failed", "cancelled", "stopped"];

/**
 * Whether it matters how far a job is: while it runs, and when it was ended before its time.
 * @param {string} state
 */
export function isProgressShown(state) {
  return state === "running" || ENDED.includes(state);
}

/**
 * A bar that shows nothing while there is no progress. That of a job that ended says so, and stands still.
 * @returns {{element: HTMLElement, update: (progress: Progress | null, state: string, isTicking?: boolean) => void}}
 */
export function progressBar() {
  const words = el("span", { class: "ba-progress-words" });
  const share = el("span", { class: "ba-progress-share" });
  const time = el("span", { class: "ba-progress-time" });
  const of = el("span", { class: "ba-progress-of" });
  const left = el("span", { class: "ba-progress-left" }, share, time, of);
  const done = el("span", { class: "ba-progress-done" });
  const range = { role: "progressbar", "aria-label": "progress", "aria-valuemin": 0, "aria-valuemax": 100 };
  const bar = el("span", { class: "ba-progress-bar", ...range }, done);
  const element = el("div", { class: "ba-progress", hidden: true }, el("span", { class: "ba-progress-line" }, words, left), bar);

  /** @type {(progress: Progress | null, state: string, isTicking?: boolean) => void} */
  const update = (progress, state, isTicking = true) => {
    element.hidden = !progress || !isProgressShown(state);
    if (!progress || element.hidden) return;
    const percent = Math.floor(progress.fraction * 100);
    const isRunning = state === "running";
    const text = isRunning ? progress.words : [state, progress.words && `at ${progress.words}`].filter(Boolean).join(" ");
    element.dataset.state = state;
    setText(words, text);
    element.title = text;
    const rest = isRunning && isTicking ? timeLeft(progress) : "";
    setText(share, `${percent} %${rest && " · "}`);
    setText(time, rest && `${rest} left`);
    setText(of, rest && progress.is_of_epoch ? " in this epoch" : "");
    done.style.width = `${progress.fraction * 100}%`;
    bar.setAttribute("aria-valuenow", String(percent));
    bar.setAttribute("aria-valuetext", `${text}, ${left.textContent}`);
  };
  return { element, update };
}

/**
 * How long it takes on; empty where nobody knows, or it should have been done.
 * @param {Progress} progress
 */
function timeLeft({ ends }) {
  const seconds = ends === null ? 0 : (ends - Date.now()) / SECOND_MS;
  return seconds >= 1 ? span(seconds) : "";
}

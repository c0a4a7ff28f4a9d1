// The controls of a replay: play and pause, a scrubber, the speed; and the view that they drive.

import { el, setText } from "../core/dom.js";
import { duration } from "../core/format.js";
import { JobSession } from "../job/job_session.js";
import { JobView } from "../job/job_view.js";

/** @typedef {import("./recording_host.js").RecordingHost} RecordingHost */

const SPEEDS = [1, 2, 5, 10, 20, 50, 100];
const MAX_STEP_S = 0.25; // a page that was hidden goes on where it was

export class Replay {
  /** @type {{session: JobSession, view: JobView} | null} */
  #shown = null;
  #frame = 0;
  #last = 0; // milliseconds, of the last frame

  /**
   * @param {RecordingHost} host
   * @param {HTMLElement} root
   * @param {{speed?: number, isPlaying?: boolean}} [start]
   */
  constructor(host, root, { speed = 1, isPlaying = true } = {}) {
    this.host = host;
    this.play = el("button", { type: "button", class: "ba-button ba-play", click: () => (this.#frame ? this.pause() : this.start()) });
    this.time = el("span", { class: "ba-replay-time" });
    this.scrubber = el("input", {
      type: "range",
      class: "ba-scrubber",
      min: 0,
      max: Math.ceil(host.duration * 10) / 10,
      step: 0.1,
      value: 0,
      "aria-label": "Time of the recording",
      input: () => this.seek(Number(this.scrubber.value)),
    });
    const options = [...new Set([...SPEEDS, speed])].sort((a, b) => a - b).map((each) => el("option", { value: each, selected: each === speed }, `×${each}`));
    this.speed = el("select", { class: "ba-select", "aria-label": "Speed of the replay" }, ...options);
    this.stage = el("div", {});
    const bar = el("div", { class: "ba-view ba-replay", role: "group", "aria-label": "Replay" }, this.play, this.scrubber, this.time, this.speed);
    this.element = el("div", { class: "ba-replayed" }, this.stage, bar);
    root.append(this.element);
    this.seek(0);
    if (isPlaying) this.start();
    else this.#describe();
  }

  /** Plays on, from the start if it is at its end. */
  start() {
    if (this.host.time >= this.host.duration) this.seek(0);
    this.#last = performance.now();
    this.#frame = requestAnimationFrame(() => this.#step());
    this.#describe();
  }

  /** Stands still. */
  pause() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#describe();
  }

  /** Shows a time of the recording. @param {number} time seconds */
  seek(time) {
    if (!this.#shown || time < this.host.time) this.#restart();
    this.host.advance(time);
    this.#describe();
  }

  /** Removes the view. */
  stop() {
    this.pause();
    this.#clear();
    this.element.remove();
  }

  #step() {
    const now = performance.now();
    const elapsed = Math.min(MAX_STEP_S, (now - this.#last) / 1000);
    this.#last = now;
    this.host.advance(this.host.time + elapsed * Number(this.speed.value));
    if (this.host.time >= this.host.duration) return this.pause();
    this.#frame = requestAnimationFrame(() => this.#step());
    this.#describe();
  }

  /** Makes a new view of the recording's first state. */
  #restart() {
    this.#clear();
    this.host.rewind();
    const first = this.host.entries.find(({ state }) => state)?.state ?? {};
    this.host.setState(first);
    const session = new JobSession(this.host);
    this.#shown = { session, view: new JobView(session, this.stage) };
  }

  #clear() {
    this.#shown?.view.out();
    this.#shown?.session.close();
    this.#shown = null;
  }

  #describe() {
    const { time, duration: whole } = this.host;
    const label = this.#frame ? "Pause" : time >= whole ? "Replay" : "Play";
    setText(this.play, label);
    this.scrubber.value = String(time);
    this.scrubber.setAttribute("aria-valuetext", `${duration(time)} of ${duration(whole)}`);
    setText(this.time, `${duration(time)} / ${duration(whole)}`);
  }
}

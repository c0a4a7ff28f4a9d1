// Where a running job's ranks spend their time: a button beside the resource usage, and the table that it requests.

import { el, setText } from "../core/dom.js";

/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("../core/messages.d.ts").RunProfile} RunProfile */

export class ProfilePanel {
  #shown = "";

  /** @param {JobSession} session */
  constructor(session) {
    this.session = session;
    this.button = el("button", { type: "button", class: "ba-button ba-small", hidden: true, click: () => this.#begin() }, "Profile");
    this.button.title = "Sample for 10 seconds what each rank does";
    this.note = el("span", { class: "ba-profile-sentence", "aria-live": "polite" });
    this.body = el("div", { class: "ba-profile-body", tabindex: 0, role: "region", "aria-label": "profile of the ranks" });
    this.stopListening = session.listen((kind) => kind === "lost" && this.update());
    this.element = el("details", { class: "ba-profile", open: true, hidden: true }, el("summary", {}, this.note), this.body);
  }

  /** Offers the button while the job runs, and shows the latest profile, even if another view of the job requested it. */
  update() {
    const { state, can_profile: canProfile } = this.session.host.get("facts");
    /** @type {RunProfile | undefined} */
    const profile = this.session.host.get("profile"); // none in an old recording
    this.button.hidden = !(canProfile && state === "running");
    this.#setRunning(Boolean(profile?.is_running) && !this.session.isKernelLost);
    if (profile?.text) this.#show(profile);
  }

  /** Stops following the session. */
  stop() {
    this.stopListening();
  }

  async #begin() {
    this.#setRunning(true);
    const { content } = await this.session.request({ kind: "profile" });
    this.update();
    if (content.text) this.#show({ is_running: false, text: String(content.text) });
  }

  /** @param {boolean} isRunning */
  #setRunning(isRunning) {
    this.button.disabled = isRunning || this.session.isKernelLost;
    setText(this.button, isRunning ? "Profiling …" : "Profile");
  }

  /** @param {RunProfile} profile */
  #show({ text, titles = [], rows = [], remarks = [] }) {
    const shown = JSON.stringify([text, titles, rows, remarks]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    const line = (/** @type {"th" | "td"} */ tag, /** @type {string[]} */ cells) =>
      el("tr", {}, ...cells.map((cell) => el(tag, tag === "th" ? { scope: "col" } : {}, cell)));
    const table = el("table", { class: "ba-cells" }, el("thead", {}, line("th", titles)), el("tbody", {}, ...rows.map((row) => line("td", row))));
    this.element.hidden = false;
    setText(this.note, text);
    this.body.replaceChildren(...(rows.length ? [table] : []), ...remarks.map((remark) => el("p", {}, remark)));
  }
}

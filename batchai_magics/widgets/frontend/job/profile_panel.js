// Where the time of a running job's ranks goes: a button beside the resource usage, and the table that it brings.

import { el, setText } from "../core/dom.js";

/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("../core/messages.d.ts").RunProfile} RunProfile */

const POLL_MS = 1000;

export class ProfilePanel {
  /** @param {JobSession} session */
  constructor(session) {
    this.session = session;
    this.isOver = false;
    this.button = el("button", { type: "button", class: "ba-button ba-small", hidden: true, click: () => this.#begin() }, "Profile");
    this.button.title = "Sample for 10 seconds what each rank does";
    this.note = el("span", { class: "ba-profile-sentence", "aria-live": "polite" });
    this.body = el("div", { class: "ba-profile-body", tabindex: 0, role: "region", "aria-label": "profile of the ranks" });
    this.element = el("details", { class: "ba-profile", open: true, hidden: true }, el("summary", {}, this.note), this.body);
  }

  /** Offers the button while the job runs. */
  update() {
    const { state, can_profile: canProfile } = this.session.host.get("facts");
    this.button.hidden = !(canProfile && state === "running");
  }

  /** Waits no longer. */
  stop() {
    this.isOver = true;
  }

  async #begin() {
    this.button.disabled = true;
    setText(this.button, "Profiling …");
    let profile = await this.#ask(true);
    while (profile.is_running && !this.isOver) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      profile = await this.#ask(false);
    }
    setText(this.button, "Profile");
    this.button.disabled = false;
    this.#show(profile);
  }

  /** @param {boolean} begin */
  async #ask(begin) {
    const { content } = await this.session.request({ kind: "profile", begin });
    return /** @type {RunProfile} */ (/** @type {unknown} */ (content));
  }

  /** @param {RunProfile} profile */
  #show({ text, titles = [], rows = [], remarks = [] }) {
    const line = (/** @type {"th" | "td"} */ tag, /** @type {string[]} */ cells) =>
      el("tr", {}, ...cells.map((cell) => el(tag, tag === "th" ? { scope: "col" } : {}, cell)));
    const table = el("table", { class: "ba-cells" }, el("thead", {}, line("th", titles)), el("tbody", {}, ...rows.map((row) => line("td", row))));
    this.element.hidden = false;
    setText(this.note, text || "The connection was lost before the profile had ended: profile again.");
    this.body.replaceChildren(...(rows.length ? [table] : []), ...remarks.map((remark) => el("p", {}, remark)));
  }
}

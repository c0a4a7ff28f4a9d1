// Code, options and environment of the job: a summary, and on request the code, the uncommitted changes and the packages.

import { el } from "../core/dom.js";

/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("../core/messages.d.ts").RunRecord} RunRecord */

export class RecordPanel {
  /** @param {JobSession} session */
  constructor(session) {
    this.session = session;
    this.element = el("div", { class: "ba-record", hidden: true, tabindex: 0, role: "region", "aria-label": "record" });
  }

  /** @param {boolean} isShown */
  show(isShown) {
    this.element.hidden = !isShown;
    if (isShown) void this.#load();
  }

  /** Reads the record again: machines appear in it while the job runs. */
  async #load() {
    const { content } = await this.session.request({ kind: "record" });
    if (content.text) this.element.replaceChildren(el("div", { class: "ba-muted" }, content.text));
    else this.element.replaceChildren(...parts(/** @type {RunRecord} */ (/** @type {unknown} */ (content))));
  }
}

/** @param {RunRecord} record */
function parts(record) {
  if (!record.facts.length) return [el("div", { class: "ba-muted" }, "Nothing was recorded for this job.")];
  const facts = record.facts.flatMap(([title, text]) => [el("dt", {}, title), el("dd", {}, text)]);
  const more = record.sections.map(([title, text]) => el("details", {}, el("summary", {}, title), el("pre", {}, text)));
  return [el("dl", { class: "ba-record-facts" }, ...facts), ...more];
}

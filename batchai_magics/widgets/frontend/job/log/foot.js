// What is beneath a log: links to its lines, what came of them, and where the reader is.

import { copyText, el, setText } from "../../core/dom.js";
import { counted, size } from "../../core/format.js";
import { MAIN_LOG } from "../session.js";
import { plain } from "./ansi.js";
import { isGap } from "./document.js";

/** @typedef {import("../session.js").Session} Session */
/** @typedef {import("./document.js").LogDocument} LogDocument */
/** @typedef {import("./window.js").LogView} LogView */

const NOTE_MS = 4000;

export class LogFoot {
  /**
   * @param {Session} session
   * @param {LogView} view
   * @param {{log: () => LogDocument, file: () => string, reveal: (offset: number, file: string) => void}} on
   */
  constructor(session, view, on) {
    this.session = session;
    this.view = view;
    this.on = on;
    this.position = el("span", { class: "ba-position", "aria-live": "off" });
    this.note = el("span", { class: "ba-position", "aria-live": "polite" });
    this.wrap = link("Wrap", "Break long lines", () => this.#toggleWrap());
    this.wrap.setAttribute("aria-pressed", "false");
    this.element = el("div", { class: "ba-foot" }, this.#links(), this.position);
  }

  /** Says how much there is, and whether the reader follows it. */
  showPosition() {
    const log = this.on.log();
    const state = this.session.isComplete ? "" : this.view.isFollowing ? "following · " : "scrolled back · ";
    setText(this.position, log.size ? `${state}${size(log.size)}` : "");
  }

  #links() {
    return el(
      "span",
      { class: "ba-links" },
      link("First line", "Go to the first line (Home)", () => this.view.toStart()),
      link("First error", "Go to the first line that tells of an error", () => this.#toFirstError()),
      this.wrap,
      link("Copy", "Copy the lines that are loaded", () => this.#copy()),
      this.note,
    );
  }

  #toggleWrap() {
    this.view.wrap(!this.view.boxLayout.isWrapped);
    this.wrap.setAttribute("aria-pressed", String(this.view.boxLayout.isWrapped));
  }

  async #toFirstError() {
    for (const file of [...new Set([this.on.file(), "stderr.txt", MAIN_LOG])]) {
      const rank = file === this.on.file() ? this.on.log().rank : null;
      const { content } = await this.session.request({ kind: "first_error", file, rank });
      if (typeof content.offset === "number") return this.on.reveal(content.offset, file);
    }
    this.#say("no error found");
  }

  async #copy() {
    const lines = this.on.log().rows.filter((row) => !isGap(row)).map((row) => plain(/** @type {any} */ (row).text));
    const isDone = await copyText(lines.join("\n"));
    this.#say(isDone ? `${counted(lines.length, "line")} copied` : "the browser did not let us copy");
  }

  /** @param {string} text */
  #say(text) {
    setText(this.note, text);
    setTimeout(() => this.note.textContent === text && setText(this.note, ""), NOTE_MS);
  }
}

/**
 * @param {string} text
 * @param {string} title
 * @param {() => void} click
 */
function link(text, title, click) {
  return el("button", { type: "button", class: "ba-link", title, click }, text);
}

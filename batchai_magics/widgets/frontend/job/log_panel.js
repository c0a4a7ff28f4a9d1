// The output of a job: tabs, a log with search and toolbar, the failure report, the files.

import { copyText, el, setText } from "../core/dom.js";
import { counted, size } from "../core/format.js";
import { FailurePanel } from "./failure_report.js";
import { FileList } from "./file_list.js";
import { MAIN_LOG, PAGE_BYTES } from "./job_session.js";
import { isGap, MERGED } from "./log_rows.js";
import { firstError, LogSearch } from "./log_search.js";
import { FAILURE, FILES, LogTabs, RECORD } from "./log_tabs.js";
import { plain } from "./log_text.js";
import { LogWindow } from "./log_window.js";

/** @typedef {import("./job_session.js").JobSession} JobSession */
/** @typedef {import("./log_document.js").Gap} Gap */
/** @typedef {import("./view_memory.js").ViewMemory} ViewMemory */

const NOTE_MS = 4000;

class LogToolbar {
  /**
   * @param {JobSession} session
   * @param {LogWindow} view
   * @param {(offset: number, file: string) => void} reveal shows a line
   */
  constructor(session, view, reveal) {
    this.session = session;
    this.view = view;
    this.reveal = reveal;
    this.position = el("span", { class: "ba-position", "aria-live": "off" });
    this.note = el("span", { class: "ba-position", "aria-live": "polite" });
    this.wrap = link("Wrap", "Break long lines", () => this.#toggleWrap());
    this.wrap.setAttribute("aria-pressed", "false");
    const links = el(
      "span",
      { class: "ba-links" },
      link("First line", "Go to the first line (Home)", () => this.view.toStart()),
      link("First error", "Go to the first error", () => this.#toFirstError()),
      this.wrap,
      link("Copy", "Copy the lines that are loaded", () => this.#copy()),
      this.note,
    );
    this.element = el("div", { class: "ba-foot" }, links, this.position);
  }

  /** Shows the log's size, and whether the view follows its end. */
  showPosition() {
    const { log } = this.view;
    const state = this.session.isComplete ? "" : this.view.isFollowing ? "following · " : "scrolled back · ";
    setText(this.position, log.size ? `${state}${size(log.size)}` : "");
  }

  #toggleWrap() {
    this.view.wrap(!this.view.boxLayout.isWrapped);
    this.wrap.setAttribute("aria-pressed", String(this.view.boxLayout.isWrapped));
  }

  async #toFirstError() {
    for (const file of [...new Set([this.view.log.file, "stderr.txt", MAIN_LOG])]) {
      const rank = file === this.view.log.file ? this.view.log.rank : null;
      const offset = await firstError(this.session, file, rank);
      if (offset !== null) return this.reveal(offset, file);
    }
    this.#say("no error found");
  }

  async #copy() {
    const lines = this.view.log.rows.filter((row) => !isGap(row)).map((row) => plain(/** @type {any} */ (row).text));
    const isDone = await copyText(lines.join("\n"));
    this.#say(isDone ? `${counted(lines.length, "line")} copied` : "the browser blocked copying");
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

const REFRESH_MS = 1500; // of logs that are not streamed

export class LogPanel {
  /**
   * @param {JobSession} session
   * @param {ViewMemory} memory
   */
  constructor(session, memory) {
    this.session = session;
    this.memory = memory;
    this.left = memory.state.tab ?? ""; // the tab that was open when this job's view was left; "" once it is open again
    /** @type {number | null} */
    this.target = null; // an offset to be shown once its line is loaded
    this.view = new LogWindow(session.log(MAIN_LOG), {
      wantsBytes: ({ start, end }, isFromEnd) => (isFromEnd ? this.#readBefore(end, start) : this.#readFrom(start)),
      moved: () => this.#showPosition(),
    });
    this.search = new LogSearch(session, this.view, (offset) => this.reveal(offset));
    this.files = new FileList(session);
    this.record = new RecordPanel(session);
    this.failure = new FailurePanel(session, {
      found: () => this.#offerFailure(),
      reveal: (offset, file) => this.reveal(offset, file),
    });
    this.tabs = new LogTabs((tab, rank) => this.#open(tab, rank));
    this.newest = el("button", { type: "button", class: "ba-newest", hidden: true, click: () => this.view.follow() });
    this.empty = el("div", { class: "ba-empty" });
    this.filters = el("div", { class: "ba-filters" }, this.tabs.whose, this.search.element);
    this.logFrame = el("div", { class: "ba-log-frame" }, this.view.box, this.empty, this.newest);
    this.foot = new LogToolbar(session, this.view, (offset, file) => this.reveal(offset, file));
    const keydown = (/** @type {KeyboardEvent} */ event) => this.#onKey(event);
    this.element = el(
      "div",
      { class: "ba-output", role: "group", "aria-label": "output", keydown },
      el("div", { class: "ba-toolbar" }, this.tabs.element),
      this.filters,
      this.logFrame,
      this.failure.element,
      this.files.element,
      this.record.element,
      this.foot.element,
    );
    this.tabs.current = MAIN_LOG;
    this.refreshing = setInterval(() => {
      const isStreamed = isMain(this.log.file) && this.log.rank === null;
      if (!isStreamed && !this.logFrame.hidden && !this.session.isComplete) this.#readOn();
    }, REFRESH_MS);
    this.#showPosition();
  }

  /** The log that is shown. */
  get log() {
    return this.view.log;
  }

  /**
   * Shows new rows of the stream or of a requested page.
   * @param {"log" | "page"} kind
   * @param {string} file
   * @param {number} added
   */
  update(kind, file, added) {
    if (file !== this.log.file || (kind === "log" && this.log.rank !== null)) return;
    this.view.update(added);
    if (this.target !== null) this.#seek();
    this.#showPosition();
    this.search.grown();
  }

  /** Updates the tabs. */
  offer() {
    const files = /** @type {string[]} */ (this.session.host.get("files"));
    const { has_ranks: hasRanks, processes } = this.session.host.get("facts");
    this.tabs.offer(files.includes(MAIN_LOG) ? files : [MAIN_LOG, ...files], hasRanks ? processes : 0);
    this.#openLeft(files);
    this.#openMain(files);
    this.#showPosition();
    void this.failure.update();
  }

  /**
   * Opens the tab in which the view was left; of a failed job, the failure is shown.
   * @param {string[]} files
   */
  #openLeft(files) {
    if (![FILES, RECORD, ...files].includes(this.left) || this.session.host.get("facts").state === "failed") return;
    const tab = this.left;
    this.left = "";
    this.tabs.isChosen = true;
    this.tabs.show(tab);
  }

  /**
   * Opens the main log unless the user has chosen a tab: stdout, merged with stderr once that has content.
   * @param {string[]} files
   */
  #openMain(files) {
    const main = files.includes(MERGED) ? MERGED : MAIN_LOG;
    const isThere = files.includes(this.tabs.current) || this.tabs.current === MAIN_LOG;
    const isFree = !this.tabs.isChosen && this.view.isFollowing && isMain(this.tabs.current);
    if (main !== this.tabs.current && (isFree || !isThere) && isMain(this.tabs.current)) this.tabs.show(main);
  }

  /** Offers the failure report, and opens it unless the user is searching. */
  #offerFailure() {
    this.tabs.hasFailure = true;
    this.offer();
    if (!this.search.input.value) this.tabs.show(FAILURE);
  }

  /**
   * Shows the line at an offset, of another log if necessary.
   * @param {number} offset
   * @param {string} [file]
   */
  reveal(offset, file = this.log.file) {
    if (file !== this.tabs.current) this.tabs.showAll(file);
    this.target = offset;
    this.#seek();
  }

  /** Called after the panel was moved: keeps the log's scroll position. */
  moved() {
    this.view.moved();
  }

  /** Stops timers and requests. */
  stop() {
    clearInterval(this.refreshing);
    this.search.stop();
    this.files.stop();
    this.view.stop();
  }

  /** Shows the target line, or loads it first. */
  #seek() {
    const offset = /** @type {number} */ (this.target);
    const row = this.log.rows[this.log.indexAt(offset)];
    if (row && !isGap(row)) {
      this.target = null;
      this.view.reveal(row.start);
    } else if (row) this.#readAround(row, offset);
  }

  /** Requests a page of the log from a byte on. @param {number} offset */
  #readFrom(offset) {
    const { file, rank } = this.log;
    if (rank === null) void this.session.read(file, offset);
    else void this.session.readLines(file, rank, offset, false);
  }

  /** Requests the page before a byte, none of it before `least`. @type {(offset: number, least: number) => void} */
  #readBefore(offset, least) {
    const { file, rank } = this.log;
    if (rank === null) void this.session.read(file, Math.max(least, offset - PAGE_BYTES));
    else void this.session.readLines(file, rank, offset, true);
  }

  /** Requests the surroundings of a byte in a gap. @type {(gap: Gap, offset: number) => void} */
  #readAround({ start }, offset) {
    this.#readFrom(Math.max(start, this.log.rank === null ? offset - (PAGE_BYTES >> 1) : offset));
  }

  /** Requests the bytes appended to the file, or its end if nothing is loaded yet. */
  #readOn() {
    if (this.log.size) this.#readFrom(this.log.end);
    else this.#readBefore(this.log.rank === null ? 0 : -1, -PAGE_BYTES); // counted from its end
  }

  /**
   * @param {string} tab
   * @param {number | null} rank
   */
  #open(tab, rank) {
    if (this.tabs.isChosen) this.memory.keep({ tab });
    const isLog = ![FILES, FAILURE, RECORD].includes(tab);
    this.logFrame.hidden = !isLog;
    this.filters.hidden = !isLog;
    this.foot.element.classList.toggle("ba-quiet", !isLog);
    this.files.show(tab === FILES);
    this.failure.show(tab === FAILURE);
    this.record.show(tab === RECORD);
    if (!isLog) return;
    this.target = null;
    this.view.show(this.session.log(tab, rank));
    if (!this.log.size) this.#readOn();
    this.search.run(true);
    this.#showPosition();
  }

  #showPosition() {
    const { log } = this;
    this.empty.hidden = log.shown.length > 0;
    this.view.box.classList.toggle("ba-merged", log.file === MERGED);
    const nothing = log.rank === null ? "This file is empty." : `Rank ${log.rank} wrote nothing here.`;
    setText(this.empty, this.session.isComplete ? nothing : this.session.status.activity || "Waiting for the first line …");
    const { isFollowing, unread } = this.view;
    this.newest.hidden = isFollowing;
    setText(this.newest, unread ? `↓ ${counted(unread, "new line")}` : "↓ Newest line");
    this.foot.showPosition();
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      this.search.focus();
      event.preventDefault();
    }
    event.stopPropagation();
  }
}

/** Whether a tab is a main log: stdout, or stdout merged with stderr. @param {string} tab */
function isMain(tab) {
  return tab === MAIN_LOG || tab === MERGED;
}

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

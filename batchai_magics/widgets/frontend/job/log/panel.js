// The output: tabs, the rows of a log with their search, and the files.

import { el, setText } from "../../core/dom.js";
import { counted } from "../../core/format.js";
import { FailurePanel } from "../failure.js";
import { Files } from "../files.js";
import { MAIN_LOG } from "../session.js";
import { isGap } from "./document.js";
import { LogFoot } from "./foot.js";
import { MERGED } from "./ranks.js";
import { LogReader } from "./reader.js";
import { LogSearch } from "./search_box.js";
import { FAILURE, FILES, LogTabs } from "./tabs.js";
import { LogView } from "./window.js";

/** @typedef {import("../session.js").Session} Session */

const REFRESH_MS = 1500; // of what is not streamed

export class LogPanel {
  /** @param {Session} session */
  constructor(session) {
    this.session = session;
    this.file = MAIN_LOG;
    this.log = session.log(MAIN_LOG);
    this.reader = new LogReader(session, this.file, this.log);
    /** @type {number | null} */
    this.target = null; // an offset to be shown as soon as its line is here
    this.view = new LogView(this.log, {
      wantsBytes: (gap, isFromEnd) => this.reader.readGap(gap, isFromEnd),
      moved: () => this.#showPosition(),
    });
    this.search = new LogSearch(session, this.view, {
      log: () => this.log,
      file: () => this.file,
      reveal: (offset) => this.reveal(offset),
    });
    this.files = new Files(session);
    this.failure = new FailurePanel(session, {
      found: () => this.#offerFailure(),
      reveal: (offset, file) => this.reveal(offset, file),
    });
    this.tabs = new LogTabs((tab, rank) => this.#open(tab, rank));
    this.newest = el("button", { type: "button", class: "ba-newest", hidden: true, click: () => this.view.follow() });
    this.empty = el("div", { class: "ba-empty" });
    this.filters = el("div", { class: "ba-filters" }, this.tabs.whose, this.search.element);
    this.logFrame = el("div", { class: "ba-log-frame" }, this.view.box, this.empty, this.newest);
    this.foot = new LogFoot(session, this.view, {
      log: () => this.log,
      file: () => this.file,
      reveal: (offset, file) => this.reveal(offset, file),
    });
    this.element = this.#output();
    this.tabs.current = MAIN_LOG;
    this.refreshing = setInterval(() => this.#refresh(), REFRESH_MS);
    this.#showPosition();
  }

  /**
   * Takes note of new rows: of the stream, or of a page that was asked for.
   * @param {"log" | "page"} kind
   * @param {string} file
   * @param {number} added
   */
  update(kind, file, added) {
    if (file !== this.file || (kind === "log" && this.log.rank !== null)) return;
    this.view.update(added);
    if (this.target !== null) this.#seek();
    this.#showPosition();
    this.search.grown();
  }

  #output() {
    const keydown = (/** @type {KeyboardEvent} */ event) => this.#onKey(event);
    return el(
      "div",
      { class: "ba-output", role: "group", "aria-label": "output", keydown },
      el("div", { class: "ba-toolbar" }, this.tabs.element),
      this.filters,
      this.logFrame,
      this.failure.element,
      this.files.element,
      this.foot.element,
    );
  }

  /** Offers the files of the job. */
  offer() {
    const files = /** @type {string[]} */ (this.session.model.get("files"));
    const { has_ranks: hasRanks, processes } = this.session.model.get("facts");
    this.tabs.offer(files.includes(MAIN_LOG) ? files : [MAIN_LOG, ...files], hasRanks ? processes : 0);
    this.#openMain(files);
    this.#showPosition();
    void this.failure.update();
  }

  /**
   * Opens what is read first, unless the reader has chosen something: stdout, with stderr as soon as that has anything.
   * @param {string[]} files
   */
  #openMain(files) {
    const main = files.includes(MERGED) ? MERGED : MAIN_LOG;
    const isThere = files.includes(this.tabs.current) || this.tabs.current === MAIN_LOG;
    const isFree = !this.tabs.isChosen && this.view.isFollowing && isMain(this.tabs.current);
    if (main !== this.tabs.current && (isFree || !isThere) && isMain(this.tabs.current)) this.tabs.show(main);
  }

  /** Offers what failed first, and opens it unless the reader looks at something: nothing is moved for it. */
  #offerFailure() {
    this.tabs.hasFailure = true;
    this.offer();
    const isUsed = this.element.matches(":hover") || this.element.contains(document.activeElement) || this.search.input.value;
    if (!isUsed && this.view.isFollowing && isMain(this.tabs.current)) this.tabs.show(FAILURE);
  }

  /**
   * Shows the line at an offset, in another log if need be.
   * @param {number} offset
   * @param {string} [file]
   */
  reveal(offset, file = this.file) {
    if (file !== this.tabs.current) this.tabs.showAll(file);
    this.target = offset;
    this.#seek();
  }

  /** The panel was put somewhere else: the log stays where it was. */
  moved() {
    this.view.moved();
  }

  /** Ends what the panel has running. */
  stop() {
    clearInterval(this.refreshing);
    this.search.stop();
    this.files.stop();
    this.view.stop();
  }

  /** Shows the line that is to be shown, or reads it first. */
  #seek() {
    const offset = /** @type {number} */ (this.target);
    const row = this.log.rows[this.log.indexAt(offset)];
    if (row && !isGap(row)) {
      this.target = null;
      this.view.reveal(row.start);
    } else if (row) this.reader.readAround(row, offset);
  }

  /**
   * @param {string} tab
   * @param {number | null} rank
   */
  #open(tab, rank) {
    const isLog = tab !== FILES && tab !== FAILURE;
    this.logFrame.hidden = !isLog;
    this.filters.hidden = !isLog;
    this.foot.element.classList.toggle("ba-quiet", !isLog);
    this.files.show(tab === FILES);
    this.failure.show(tab === FAILURE);
    if (!isLog) return;
    this.file = tab;
    this.target = null;
    this.log = this.session.log(tab, rank);
    this.reader = new LogReader(this.session, tab, this.log);
    this.view.show(this.log);
    if (!this.log.size) this.reader.readEnd();
    this.search.run(true);
    this.#showPosition();
  }

  #refresh() {
    const isStreamed = isMain(this.file) && this.log.rank === null;
    if (!isStreamed && !this.logFrame.hidden && !this.session.isComplete) this.reader.readOn();
  }

  /** What an empty log waits for. */
  #awaited() {
    return this.session.standing.activity || "Waiting for the first line …";
  }

  #showPosition() {
    const { log } = this;
    this.empty.hidden = log.shown.length > 0;
    this.view.box.classList.toggle("ba-merged", this.file === MERGED);
    const nothing = log.rank === null ? "This file is empty." : `Rank ${log.rank} wrote nothing here.`;
    setText(this.empty, this.session.isComplete ? nothing : this.#awaited());
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

/**
 * Whether a tab is what is read first: stdout, or both logs as one.
 * @param {string} tab
 */
function isMain(tab) {
  return tab === MAIN_LOG || tab === MERGED;
}

// The live list of an experiment's jobs, and one of them opened below. Python holds the data; this draws it.

import { childView } from "../core/child_view.js";
import { el, setText } from "../core/dom.js";
import { counted } from "../core/format.js";
import { BoardFrame } from "./frame.js";
import { stateFilter } from "./job_filter.js";
import { JobTable } from "./job_table.js";

/** @typedef {import("./messages.d.ts").BoardModel} BoardModel */
/** @typedef {import("./messages.d.ts").ChildView} ChildView */
/** @typedef {import("./messages.d.ts").JobsFacts} JobsFacts */

export default {
  /** @param {{model: BoardModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const board = new BoardFrame(model, "jobs");
    const head = jobsHead(board.note);
    const opened = new OpenedJob(board, (name) => table.mark(name));
    const table = new JobTable((name) => void opened.toggle(name));
    board.onLost = () => table.stop(); // how they go on nobody here knows
    const filter = stateFilter((isShown) => table.show(isShown));
    board.show(root, `Jobs of ${model.get("facts").name}`, head.element, filter.element, table.element, opened.element);
    board.line.onNews = (content) => {
      if (content.kind === "rates") table.setRates(content.rates, content.progress ?? {});
    };
    board.watch(["rows"], () => {
      table.update(model.get("rows"));
      filter.update(model.get("rows"));
    });
    board.watch(["rows", "facts"], () => head.update(model.get("facts"), model.get("rows").length));
    return () => {
      opened.close();
      table.stop();
      board.close();
    };
  },
};

/** @param {HTMLElement} note */
function jobsHead(note) {
  const name = el("strong", { class: "ba-name" });
  const total = el("span", { class: "ba-facts" });
  const problem = el("div", { class: "ba-problem", hidden: true });
  const element = el("header", { class: "ba-header" }, el("div", { class: "ba-title" }, name, total), note, problem);

  /**
   * @param {JobsFacts} facts
   * @param {number} shown how many of the jobs have a row
   */
  const update = (facts, shown) => {
    setText(name, facts.name);
    const jobs = counted(facts.total, "job");
    setText(total, `experiment  ·  ${shown < facts.total ? `the newest ${shown} of ${jobs}` : jobs}`);
    problem.hidden = !facts.problem;
    setText(problem, facts.problem);
  };
  return { element, update };
}

/** The place below the table where one job's live view is. */
class OpenedJob {
  #name = ""; // of the job that is open
  /** @type {ChildView | null} */
  #view = null;
  #box = el("div", { class: "ba-opened-view" });
  #label = el("span", { class: "ba-label" });

  /**
   * @param {BoardFrame} board
   * @param {(name: string) => void} mark says which job is open; "" is none
   */
  constructor(board, mark) {
    this.board = board;
    this.mark = mark;
    const close = el("button", { type: "button", class: "ba-button", click: () => this.close() }, "Close");
    const head = el("div", { class: "ba-opened-head" }, this.#label, close);
    this.element = el("section", { class: "ba-opened", hidden: true }, head, this.#box);
  }

  /**
   * Opens a job, or closes it where it is open.
   * @param {string} name
   */
  async toggle(name) {
    if (this.close() === name) return;
    this.#announce(name);
    const answer = await this.board.line.ask({ kind: "open", name });
    if (this.#name !== name) return;
    setText(this.board.note, answer.text);
    const { widget_manager: manager } = this.board.model;
    const view = answer.model && manager ? await childView(manager, answer.model) : null;
    if (this.#name !== name) view?.remove();
    else if (view) this.#put(view);
    else this.close();
  }

  /** Closes the job that is open; gives its name. */
  close() {
    const name = this.#name;
    this.#name = "";
    this.element.hidden = true;
    this.#view?.remove();
    this.#view = null;
    this.#box.replaceChildren();
    this.mark("");
    return name;
  }

  /** @param {string} name */
  #announce(name) {
    this.#name = name;
    this.mark(name);
    this.element.hidden = false;
    this.element.setAttribute("aria-label", `Job ${name}`);
    setText(this.#label, `Job ${name}`);
  }

  /** @param {ChildView} view */
  #put(view) {
    this.#view = view;
    this.#box.replaceChildren(view.el);
    this.element.scrollIntoView({ block: "nearest" });
  }
}

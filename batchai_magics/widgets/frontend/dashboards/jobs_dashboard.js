// The live list of an experiment's jobs: filters, the table, and one job opened below. Python holds the data; this draws it.

import { el, setText } from "../core/dom.js";
import { counted } from "../core/format.js";
import { Dashboard } from "./dashboard.js";
import { JobTable } from "./job_table.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */
/** @typedef {import("../core/messages.d.ts").ChildView} ChildView */
/** @typedef {import("../core/messages.d.ts").JobsFacts} JobsFacts */
/** @typedef {import("../core/messages.d.ts").JobRow} JobRow */

export default {
  /** @param {{model: KernelModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const dashboard = new Dashboard(model, "jobs");
    const head = jobsHead(dashboard.note);
    const opened = new OpenedJob(dashboard, (name) => table.mark(name));
    const table = new JobTable((name) => void opened.toggle(name));
    dashboard.onLost = () => table.stop(); // no more updates will come
    const filter = stateFilter((isShown) => table.show(isShown));
    dashboard.show(root, `Jobs of ${model.get("facts").name}`, head.element, filter.element, table.element, opened.element);
    dashboard.connection.onMessage = (content) => {
      if (content.kind === "rates") table.setRates(content.rates, content.progress ?? {}, content.labels ?? {});
    };
    dashboard.watch(["rows"], () => {
      table.update(model.get("rows"));
      filter.update(model.get("rows"));
    });
    dashboard.watch(["rows", "facts"], () => head.update(model.get("facts"), model.get("rows").length));
    return () => {
      opened.close();
      table.stop();
      dashboard.close();
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
   * @param {number} shown number of jobs that have a row
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

/** The area below the table that holds one job's live view. */
class OpenedJob {
  #name = ""; // of the open job
  /** @type {ChildView | null} */
  #view = null;
  #box = el("div", { class: "ba-opened-view" });
  #label = el("span", { class: "ba-label" });

  /**
   * @param {Dashboard} dashboard
   * @param {(name: string) => void} mark marks the open job; "" marks none
   */
  constructor(dashboard, mark) {
    this.dashboard = dashboard;
    this.mark = mark;
    const close = el("button", { type: "button", class: "ba-button", click: () => this.close() }, "Close");
    const head = el("div", { class: "ba-opened-head" }, this.#label, close);
    this.element = el("section", { class: "ba-opened", hidden: true }, head, this.#box);
  }

  /**
   * Opens a job, or closes it if it is open.
   * @param {string} name
   */
  async toggle(name) {
    if (this.close() === name) return;
    this.#setTitle(name);
    const answer = await this.dashboard.connection.ask({ kind: "open", name });
    if (this.#name !== name) return;
    setText(this.dashboard.note, answer.text);
    const embed = this.dashboard.host.get("embed");
    const view = answer.model && embed ? await embed(answer.model) : null;
    if (this.#name !== name) view?.remove();
    else if (view) this.#show(view);
    else this.close();
  }

  /** Closes the open job and returns its name. */
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
  #setTitle(name) {
    this.#name = name;
    this.mark(name);
    this.element.hidden = false;
    this.element.setAttribute("aria-label", `Job ${name}`);
    setText(this.#label, `Job ${name}`);
  }

  /** @param {ChildView} view */
  #show(view) {
    this.#view = view;
    this.#box.replaceChildren(view.el);
    this.element.scrollIntoView({ block: "nearest" });
  }
}

/** @typedef {JobRow["state"]} State */

/** @type {State[]} */
const STATES = ["queued", "running", "terminating", "succeeded", "failed", "cancelled", "stopped"];

/**
 * @param {(isShown: (row: JobRow) => boolean) => void} apply
 * @returns {{element: HTMLElement, update: (rows: JobRow[]) => void}}
 */
function stateFilter(apply) {
  /** @type {Set<State>} */
  const chosen = new Set();
  const text = el("input", { type: "search", class: "ba-field", "aria-label": "Filter by name", placeholder: "Filter by name", input: () => changed() });
  const chips = new Map(
    STATES.map((state) => {
      const count = el("b");
      const button = el(
        "button",
        { type: "button", class: "ba-chip", "aria-pressed": "false", click: () => toggle(state) },
        el("i", { class: "ba-swatch", "data-state": state }),
        count,
        ` ${state}`,
      );
      return [state, { button, count }];
    }),
  );
  const buttons = [...chips.values()].map((chip) => chip.button);
  const element = el("div", { class: "ba-tools" }, el("div", { class: "ba-chips", role: "group", "aria-label": "Show only jobs that are" }, ...buttons), text);

  /** @param {State} state */
  const toggle = (state) => {
    if (!chosen.delete(state)) chosen.add(state);
    chips.get(state)?.button.setAttribute("aria-pressed", String(chosen.has(state)));
    changed();
  };
  const changed = () => {
    const wanted = text.value.trim().toLowerCase();
    apply((row) => (!chosen.size || chosen.has(row.state)) && row.name.toLowerCase().includes(wanted));
  };
  /** @param {JobRow[]} rows */
  const update = (rows) => {
    for (const [state, { button, count }] of chips) {
      const matching = rows.filter((row) => row.state === state).length;
      setText(count, String(matching));
      button.hidden = !matching && !chosen.has(state);
    }
  };
  return { element, update };
}

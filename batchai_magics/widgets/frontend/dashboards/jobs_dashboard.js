// The live list of an experiment's jobs: filters, the table, and below it one job and a comparison of jobs. Python holds the data; this draws it.

import { el, setText } from "../core/dom.js";
import { counted } from "../core/format.js";
import { Dashboard } from "./dashboard.js";
import { JobTable } from "./job_table.js";
import { OpenedView } from "./opened_view.js";

/** @typedef {import("../core/messages.d.ts").KernelModel} KernelModel */
/** @typedef {import("../core/messages.d.ts").JobsFacts} JobsFacts */
/** @typedef {import("../core/messages.d.ts").JobRow} JobRow */

export default {
  /** @param {{model: KernelModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const dashboard = new Dashboard(model, "jobs");
    const head = jobsHead(dashboard.note);
    const opened = new OpenedView(dashboard, ([name = ""]) => `Job ${name}`);
    opened.onChange = ([name = ""]) => table.mark(name);
    const compared = new OpenedView(dashboard, (names) => `Comparison of ${counted(names.length, "job")}`);
    compared.onClose = () => table.untick();
    const table = new JobTable((name) => void opened.toggle([name]), (names) => (names.length > 1 ? compared.openSoon(names) : compared.close()));
    dashboard.onLost = () => table.stop(); // no more updates will come
    const filter = stateFilter((isShown) => table.show(isShown));
    dashboard.show(root, `Jobs of ${model.get("facts").name}`, head.element, filter.element, table.element, compared.element, opened.element);
    dashboard.connection.onMessage = (content) => {
      if (content.kind === "rates") table.setRates(content.rates, content.progress ?? {}, content.labels ?? {});
    };
    dashboard.watch(["rows"], () => {
      table.update(model.get("rows"));
      filter.update(model.get("rows"));
    });
    dashboard.watch(["rows", "facts"], () => head.update(model.get("facts"), model.get("rows").length));
    return () => {
      for (const view of [opened, compared]) view.close();
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

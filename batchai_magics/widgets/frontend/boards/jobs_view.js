// The live list of an experiment's jobs, and one of them opened below. Python holds the data; this draws it.

import { el, setText } from "../core/dom.js";
import { counted } from "../core/format.js";
import { BUSY, holdWhileUsed } from "../core/kernel.js";
import { hideSnapshot } from "../core/snapshot.js";
import { stateFilter } from "./job_filter.js";
import { JobTable } from "./job_table.js";
import { BoardLine } from "./line.js";

/** @typedef {import("./messages.d.ts").BoardModel} BoardModel */
/** @typedef {import("./messages.d.ts").ChildView} ChildView */
/** @typedef {import("./messages.d.ts").JobsFacts} JobsFacts */

export default {
  /** @param {{model: BoardModel, el: HTMLElement}} context */
  render({ model, el: root }) {
    const note = el("span", { class: "ba-note", role: "status" });
    const line = new BoardLine(model, (isBusy) => setText(note, isBusy ? BUSY : ""));
    const opened = openedJob(model, line, note, (name) => table.mark(name));
    const table = new JobTable((name) => opened.toggle(name));
    const filter = stateFilter((isShown) => table.show(isShown));
    const name = el("strong", { class: "ba-name" });
    const total = el("span", { class: "ba-facts" });
    const problem = el("div", { class: "ba-problem", hidden: true });
    const view = el(
      "article",
      { class: "ba-view ba-board", "aria-label": `Jobs of ${model.get("facts").name}`, "data-lm-suppress-shortcuts": "true" },
      el("header", { class: "ba-header" }, el("div", { class: "ba-title" }, name, total), note, problem),
      filter.element,
      table.element,
      opened.element,
    );
    holdWhileUsed(view, (content) => line.tell(content));
    const show = hideSnapshot(model.get("view_id"), view, () => line.isAnswered);
    root.append(view);

    const onFacts = () => {
      /** @type {JobsFacts} */
      const facts = model.get("facts");
      setText(name, facts.name);
      const rows = model.get("rows").length;
      const jobs = counted(facts.total, "job");
      setText(total, `experiment  ·  ${rows < facts.total ? `the newest ${rows} of ${jobs}` : jobs}`);
      problem.hidden = !facts.problem;
      setText(problem, facts.problem);
    };
    const onRows = () => {
      table.update(model.get("rows"));
      filter.update(model.get("rows"));
      onFacts();
    };
    line.onNews = (content) => {
      if (content.kind === "rates") table.setRates(content.rates);
    };
    model.on("change:facts", onFacts);
    model.on("change:rows", onRows);
    onRows();

    return () => {
      model.off("change:facts", onFacts);
      model.off("change:rows", onRows);
      opened.close();
      line.close();
      table.stop();
      show();
      view.remove();
    };
  },
};

/**
 * The place below the table where one job's live view is.
 * @param {BoardModel} model
 * @param {BoardLine} line
 * @param {HTMLElement} note
 * @param {(name: string) => void} mark says which job is open; "" is none
 */
function openedJob(model, line, note, mark) {
  const box = el("div", { class: "ba-opened-view" });
  const close = el("button", { type: "button", class: "ba-button", click: () => shut() }, "Close");
  const label = el("span", { class: "ba-label" });
  const element = el("section", { class: "ba-opened", hidden: true }, el("div", { class: "ba-opened-head" }, label, close), box);
  let open = "";
  /** @type {ChildView | null} */
  let view = null;

  const shut = () => {
    const wasOpen = open;
    open = "";
    element.hidden = true;
    view?.remove();
    view = null;
    box.replaceChildren();
    mark("");
    return wasOpen;
  };
  /** @param {string} name */
  const toggle = async (name) => {
    if (shut() === name) return;
    open = name;
    mark(name);
    element.hidden = false;
    element.setAttribute("aria-label", `Job ${name}`);
    setText(label, `Job ${name}`);
    const answer = await line.ask({ kind: "open", name });
    if (open !== name) return;
    setText(note, answer.text);
    const child = answer.model && model.widget_manager ? await childView(model.widget_manager, answer.model) : null;
    if (!child || open !== name) {
      child?.remove();
      if (open === name) shut();
      return;
    }
    view = child;
    box.replaceChildren(view.el);
    element.scrollIntoView({ block: "nearest" });
  };
  return { element, toggle, close: shut };
}

/**
 * @param {NonNullable<BoardModel["widget_manager"]>} manager
 * @param {string} id
 * @returns {Promise<ChildView>}
 */
async function childView(manager, id) {
  return manager.create_view(await manager.get_model(id), {});
}

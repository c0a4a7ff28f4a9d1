// Which jobs are shown: those in the chosen states whose name holds a text.

import { el, setText } from "../core/dom.js";

/** @typedef {import("./messages.d.ts").JobRow} JobRow */
/** @typedef {JobRow["state"]} State */

/** @type {State[]} */
const STATES = ["queued", "running", "terminating", "succeeded", "failed", "cancelled", "stopped"];

/**
 * @param {(isShown: (row: JobRow) => boolean) => void} apply
 * @returns {{element: HTMLElement, update: (rows: JobRow[]) => void}}
 */
export function stateFilter(apply) {
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

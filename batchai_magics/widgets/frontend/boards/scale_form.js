// The size of a cluster: a number of nodes, or auto-scale between two. Asks once before it is done.

import { el, setText } from "../core/dom.js";
import { counted } from "../core/format.js";

/** @typedef {import("./messages.d.ts").ClusterFacts} ClusterFacts */
/** @typedef {Record<string, unknown>} Settings `scaleSettings` of cluster.json */

const CONFIRM_MS = 10_000;
const MOST_NODES = 10_000;
const WHEN_LEAVING = [
  ["requeue", "queue their jobs again"],
  ["waitforjobcompletion", "wait for their jobs"],
  ["terminate", "end their jobs"],
];

/**
 * @param {(settings: Settings) => Promise<boolean>} apply
 * @returns {{element: HTMLElement, update: (facts: ClusterFacts) => void, stop: () => void}}
 */
export function scaleForm(apply) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {ClusterFacts | null} */
  let known = null;
  let isEdited = false;
  const kind = el(
    "select",
    { class: "ba-field", "aria-label": "How the cluster is scaled", change: () => edited() },
    el("option", { value: "manual" }, "Fixed size"),
    el("option", { value: "auto" }, "Auto-scale"),
  );
  const target = number("Number of nodes");
  const least = number("Fewest nodes");
  const most = number("Most nodes");
  const leaving = el(
    "select",
    { class: "ba-field", "aria-label": "What happens to the jobs of nodes that leave", change: () => edited() },
    ...WHEN_LEAVING.map(([value, words]) => el("option", { value: value ?? "" }, `${words}`)),
  );
  const fixed = el("span", { class: "ba-choice" }, target, " nodes");
  const auto = el("span", { class: "ba-choice" }, least, " to ", most, " nodes");
  const gone = el("label", { class: "ba-choice" }, "leaving nodes", leaving);
  const submit = el("button", { type: "submit", class: "ba-button" }, "Resize …");
  const question = el("span", { class: "ba-question" });
  const yes = el("button", { type: "button", class: "ba-button ba-go", click: () => confirmed() }, "Yes, resize");
  const no = el("button", { type: "button", class: "ba-button", click: () => back() }, "Leave it");
  const plain = el("span", { class: "ba-choice" }, kind, fixed, auto, gone, submit);
  const sure = el("span", { class: "ba-choice", role: "group", "aria-label": "Resize?", hidden: true }, question, yes, no);
  const element = el("form", { class: "ba-scale", submit: (/** @type {Event} */ event) => asked(event) }, plain, sure);
  for (const field of [target, least, most]) field.addEventListener("input", () => edited());

  const edited = () => {
    isEdited = true;
    arrange();
  };
  const arrange = () => {
    const isAuto = kind.value === "auto";
    fixed.hidden = isAuto;
    auto.hidden = !isAuto;
    for (const field of [least, most]) field.disabled = !isAuto;
    target.disabled = isAuto;
    gone.hidden = isAuto || !known || Number(target.value) >= known.current;
    most.min = least.value || "0";
    submit.disabled = !isEdited;
  };
  /** @param {Event} event */
  const asked = (event) => {
    event.preventDefault();
    if (!known || !element.reportValidity()) return;
    setText(question, sentence(known));
    swap(true);
    yes.focus({ preventScroll: true });
    timer = setTimeout(back, CONFIRM_MS);
  };
  /** @param {ClusterFacts} facts */
  const sentence = (facts) => {
    if (kind.value === "auto") return `Let ${facts.name} scale itself between ${least.value} and ${most.value} nodes?`;
    return `Resize ${facts.name} from ${facts.current} to ${counted(Number(target.value), "node")}?`;
  };
  /** @param {boolean} isAsking */
  const swap = (isAsking) => {
    clearTimeout(timer);
    plain.hidden = isAsking;
    sure.hidden = !isAsking;
  };
  const back = () => {
    const hadFocus = sure.contains(document.activeElement);
    swap(false);
    if (hadFocus) submit.focus({ preventScroll: true });
  };
  const confirmed = async () => {
    swap(false);
    kind.focus({ preventScroll: true });
    if (await apply(settings())) isEdited = false;
    fill();
  };
  const settings = () => {
    if (kind.value === "auto") {
      return { autoScale: { minimumNodeCount: Number(least.value), maximumNodeCount: Number(most.value) } };
    }
    return { manual: { targetNodeCount: Number(target.value), nodeDeallocationOption: leaving.value } };
  };
  const fill = () => {
    if (known && !isEdited) {
      kind.value = known.scale.kind;
      target.value = String(known.scale.target ?? known.target);
      least.value = String(known.scale.minimum ?? 0);
      most.value = String(known.scale.maximum ?? Math.max(1, known.target));
    }
    arrange();
  };
  /** @param {ClusterFacts} facts */
  const update = (facts) => {
    known = facts;
    fill();
  };
  return { element, update, stop: () => clearTimeout(timer) };
}

/** @param {string} label */
function number(label) {
  const limits = { min: 0, max: MOST_NODES, step: 1, required: true };
  return el("input", { type: "number", class: "ba-field ba-number", "aria-label": label, ...limits });
}

// The form for a cluster's size: a number of nodes, or auto-scale limits. Asks for confirmation once.

import { el, setText } from "../core/dom.js";
import { counted } from "../core/format.js";

/** @typedef {import("../core/messages.d.ts").ClusterFacts} ClusterFacts */

/** @typedef {Record<string, unknown>} Settings `scaleSettings` of cluster.json */

const CONFIRM_MS = 10_000;
const MAX_NODES = 10_000;
const WHEN_LEAVING = [
  ["requeue", "queue their jobs again"],
  ["waitforjobcompletion", "wait for their jobs"],
  ["terminate", "end their jobs"],
];

/** The form: the fields with a button, replaced by a confirmation question after submit. */
export class ScaleForm {
  /** @type {ClusterFacts | null} */
  #facts = null;
  #isEdited = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #fields = new SizeFields(() => this.#onEdit());
  #submit = el("button", { type: "submit", class: "ba-button" }, "Resize …");
  #inputs = el("span", { class: "ba-choice" }, ...this.#fields.elements, this.#submit);
  #question = el("span", { class: "ba-question" });
  #yes = el("button", { type: "button", class: "ba-button ba-go", click: () => this.#onConfirm() }, "Yes, resize");
  #no = el("button", { type: "button", class: "ba-button", click: () => this.#onCancel() }, "Cancel");
  #confirmation = el(
    "span",
    { class: "ba-choice", role: "group", "aria-label": "Resize?", hidden: true },
    this.#question,
    this.#yes,
    this.#no,
  );

  /** @param {(settings: Settings) => Promise<boolean>} apply resolves with whether it succeeded */
  constructor(apply) {
    this.apply = apply;
    const submit = (/** @type {Event} */ event) => this.#onSubmit(event);
    this.element = el("form", { class: "ba-scale", submit }, this.#inputs, this.#confirmation);
  }

  /**
   * Shows the cluster's size, unless the user is editing it.
   * @param {ClusterFacts} facts
   */
  update(facts) {
    this.#facts = facts;
    this.#fill();
  }

  /** Stops the form's timer. */
  stop() {
    clearTimeout(this.#timer);
  }

  #onEdit() {
    this.#isEdited = true;
    this.#arrange();
  }

  #fill() {
    if (this.#facts && !this.#isEdited) this.#fields.fill(this.#facts);
    this.#arrange();
  }

  #arrange() {
    this.#fields.arrange(this.#facts?.current ?? null);
    this.#submit.disabled = !this.#isEdited;
  }

  /** @param {Event} event */
  #onSubmit(event) {
    event.preventDefault();
    if (!this.#facts || !this.element.reportValidity()) return;
    setText(this.#question, this.#fields.sentence(this.#facts));
    this.#swap(true);
    this.#yes.focus({ preventScroll: true });
    this.#timer = setTimeout(() => this.#onCancel(), CONFIRM_MS);
  }

  async #onConfirm() {
    this.#swap(false);
    this.#fields.focus();
    if (await this.apply(this.#fields.settings())) this.#isEdited = false;
    this.#fill();
  }

  #onCancel() {
    const hadFocus = this.#confirmation.contains(document.activeElement);
    this.#swap(false);
    if (hadFocus) this.#submit.focus({ preventScroll: true });
  }

  /** @param {boolean} isAsking */
  #swap(isAsking) {
    clearTimeout(this.#timer);
    this.#inputs.hidden = isAsking;
    this.#confirmation.hidden = !isAsking;
  }
}

/** The fields of the form: manual or auto-scale, the numbers, and what happens to jobs on leaving nodes. */
class SizeFields {
  #target = number("Number of nodes");
  #least = number("Fewest nodes");
  #most = number("Most nodes");
  #fixed = el("span", { class: "ba-choice" }, this.#target, " nodes");
  #auto = el("span", { class: "ba-choice" }, this.#least, " to ", this.#most, " nodes");

  /** @param {() => void} edited */
  constructor(edited) {
    this.kind = choice("How the cluster is scaled", edited, [
      ["manual", "Fixed size"],
      ["auto", "Auto-scale"],
    ]);
    this.leaving = choice("What happens to the jobs of nodes that leave", edited, WHEN_LEAVING);
    this.gone = el("label", { class: "ba-choice" }, "leaving nodes", this.leaving);
    for (const field of [this.#target, this.#least, this.#most]) field.addEventListener("input", edited);
    this.elements = [this.kind, this.#fixed, this.#auto, this.gone];
  }

  get isAuto() {
    return this.kind.value === "auto";
  }

  focus() {
    this.kind.focus({ preventScroll: true });
  }

  /**
   * Shows the cluster's size.
   * @param {ClusterFacts} facts
   */
  fill(facts) {
    this.kind.value = facts.scale.kind;
    this.#target.value = String(facts.scale.target ?? facts.target);
    this.#least.value = String(facts.scale.minimum ?? 0);
    this.#most.value = String(facts.scale.maximum ?? Math.max(1, facts.target));
  }

  /**
   * Hides the fields that do not apply.
   * @param {number | null} current number of nodes, if known
   */
  arrange(current) {
    this.#fixed.hidden = this.isAuto;
    this.#auto.hidden = !this.isAuto;
    for (const field of [this.#least, this.#most]) field.disabled = !this.isAuto;
    this.#target.disabled = this.isAuto;
    this.gone.hidden = this.isAuto || current === null || Number(this.#target.value) >= current;
    this.#most.min = this.#least.value || "0";
  }

  /**
   * The confirmation question.
   * @param {ClusterFacts} facts
   */
  sentence(facts) {
    if (this.isAuto) return `Let ${facts.name} scale itself between ${this.#least.value} and ${this.#most.value} nodes?`;
    return `Resize ${facts.name} from ${facts.current} to ${counted(Number(this.#target.value), "node")}?`;
  }

  /** @returns {Settings} */
  settings() {
    if (this.isAuto) {
      return { autoScale: { minimumNodeCount: Number(this.#least.value), maximumNodeCount: Number(this.#most.value) } };
    }
    return { manual: { targetNodeCount: Number(this.#target.value), nodeDeallocationOption: this.leaving.value } };
  }
}

/**
 * @param {string} label
 * @param {() => void} change
 * @param {string[][]} options pairs of value and label
 */
function choice(label, change, options) {
  const items = options.map(([value, words]) => el("option", { value: value ?? "" }, `${words}`));
  return el("select", { class: "ba-field", "aria-label": label, change }, ...items);
}

/** @param {string} label */
function number(label) {
  const limits = { min: 0, max: MAX_NODES, step: 1, required: true };
  return el("input", { type: "number", class: "ba-field ba-number", "aria-label": label, ...limits });
}

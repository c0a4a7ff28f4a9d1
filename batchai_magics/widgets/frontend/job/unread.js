// What is said in place of charts: the log has numbers that no format reads, and this option would read them.

import { el, setText } from "../core/dom.js";

/** @typedef {{line: string, option: string}} Unread */

/** The hint, to be shown and hidden. */
export function unreadHint() {
  const line = el("code", {});
  const option = el("code", {});
  const element = el(
    "div",
    { class: "ba-hint", hidden: true },
    el("div", {}, "The log has numbers that were not read: ", line),
    el("div", {}, "On the cell\u2019s first line this charts them: ", option),
  );
  /** @param {Unread | null} unread */
  const show = (unread) => {
    element.hidden = !unread;
    setText(line, unread?.line ?? "");
    setText(option, unread?.option ?? "");
  };
  return { element, show };
}

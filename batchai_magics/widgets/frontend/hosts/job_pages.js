// The pages of the server that `batchai open` starts: all jobs, a job, a comparison, a sweep. The address of each is in the
// URL's fragment. While another view is shown, the list of jobs is kept, but its connection is closed.

import { el, setText } from "../core/dom.js";
import { JobSession } from "../job/job_session.js";
import { JobView } from "../job/job_view.js";
import { PageHost, keepToken } from "./page_host.js";

const LIST = "/";
/** @type {Record<string, string>} */
const SCRIPTS = { "": "jobs_dashboard", compare: "comparison_view", sweep: "sweep_view" }; // of dashboards, by kind

/** Shows the view at the page's address, and another one whenever that changes. @param {HTMLElement} root */
export function showPages(root) {
  const title = el("span", { "aria-current": "page" });
  const way = el("nav", { class: "ba-page-way", "aria-label": "Pages" }, el("a", { href: "#/" }, "All jobs"), " › ", title);
  root.append(way);
  /** @type {PageView | null} */
  let list = null;
  /** @type {PageView | null} */
  let shown = null;
  const show = () => {
    keepToken(); // the user may have pasted a complete address into an open tab
    const address = location.hash.slice(1) || LIST;
    if (shown === list) list?.leave();
    else shown?.close();
    if (address === LIST && list) list.enter();
    shown = address === LIST ? (list ??= new PageView(root, address)) : new PageView(root, address);
    way.hidden = address === LIST;
    setText(title, shown.title);
    document.title = `${shown.title} · batchai`;
  };
  addEventListener("hashchange", show);
  show();
}

/**
 * The address of a view.
 * @param {string} kind
 * @param {string[]} names
 */
export function addressOf(kind, names) {
  return `#/${[kind, ...names].map(encodeURIComponent).join("/")}`;
}

/** The view at an address: its kind, and the names of its jobs or sweep. @param {string} address */
export function partsOf(address) {
  const [kind = "", ...names] = address.replace(/^\//, "").split("/").map(decoded);
  return { kind, names };
}

/** A decoded part of an address, or the part itself if it is not encoded correctly. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A view in the page. */
class PageView {
  #stop = () => {};
  #isClosed = false;
  /** @type {[number, number[]]} */
  #scrolled = [0, []];

  /**
   * @param {HTMLElement} root
   * @param {string} address
   */
  constructor(root, address) {
    const { kind, names } = partsOf(address);
    this.kind = kind;
    this.title = titleOf(kind, names);
    this.element = el("div", { class: "ba-page-view" });
    root.append(this.element);
    this.host = new PageHost(address);
    const [first = ""] = names;
    const prefix = kind === "sweep" ? first.slice(0, first.lastIndexOf("/") + 1) : ""; // of the names of its trials' jobs
    const link = (/** @type {string} */ to, /** @type {string[]} */ jobs) => addressOf(to, jobs.map((job) => prefix + job));
    this.host.setState({ link, names });
    void this.#draw();
  }

  async #draw() {
    try {
      await this.host.ready;
      const stop = await this.#render();
      if (this.#isClosed) stop();
      else this.#stop = stop;
    } catch (error) {
      this.element.append(el("p", { class: "ba-view ba-page-problem", role: "alert" }, error instanceof Error ? error.message : String(error)));
    }
  }

  /** @returns {Promise<() => void>} */
  async #render() {
    const script = SCRIPTS[this.kind];
    if (script === undefined) {
      const session = new JobSession(this.host);
      const view = new JobView(session, this.element);
      return () => (view.out(), session.close());
    }
    const { default: view } = await import(new URL(`${script}.js`, document.baseURI).href);
    return view.render({ model: this.host, el: this.element });
  }

  /** Hides the view and pauses its connection. */
  leave() {
    this.#scrolled = [scrollY, this.#scrollers.map(({ scrollTop }) => scrollTop)];
    this.element.hidden = true;
    this.host.pause();
  }

  /** Shows the view again, where it was scrolled to. */
  enter() {
    this.element.hidden = false;
    this.host.resume();
    const [page, inner] = this.#scrolled;
    this.#scrollers.forEach((scroller, i) => (scroller.scrollTop = inner[i] ?? 0));
    scrollTo(0, page);
  }

  /** Removes the view. */
  close() {
    this.#isClosed = true;
    this.#stop();
    this.host.pause();
    this.element.remove();
  }

  get #scrollers() {
    return [...this.element.querySelectorAll(".ba-scroller")];
  }
}

/** @type {(kind: string, names: string[]) => string} */
function titleOf(kind, names) {
  if (!kind) return "All jobs";
  if (kind === "compare") return `Comparison of ${names.length} jobs`;
  const [name = kind] = names; // an address without a name shows no view
  return kind === "sweep" ? `Sweep ${name}` : name;
}

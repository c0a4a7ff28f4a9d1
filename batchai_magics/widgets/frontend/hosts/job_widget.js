// The bundle of a job's view, an anywidget: live from a kernel, or, where the model has a `recording`, an address, as its
// replay; so any page can show one. `speed`, and `autoplay` as false, are optional. `showPages` shows the jobs of the server
// that `batchai open` starts.

import { el } from "../core/dom.js";
import jobView from "../job/job_view.js";
import { readRecording } from "./recording_host.js";
import { Replay } from "./replay.js";

export { showPages } from "./job_pages.js";
export { authorization, keepToken } from "./page_host.js";

/** @typedef {{get(name: string): any}} Options */

/** @param {{model: Options, el: HTMLElement}} context */
async function replay({ model, el: root }) {
  const isStill = model.get("autoplay") === false || matchMedia("(prefers-reduced-motion: reduce)").matches;
  const message = el("p", { class: "ba-view", role: "status" }, "Loading the recording …");
  root.append(message);
  try {
    const host = await readRecording(await fetch(model.get("recording"), { headers: model.get("headers") ?? {} }));
    message.remove();
    const replay = new Replay(host, root, { speed: Number(model.get("speed") || 1), isPlaying: !isStill });
    return () => replay.stop();
  } catch (error) {
    message.textContent = String(error instanceof Error ? error.message : error);
    return () => message.remove();
  }
}

export default () => {
  const live = jobView();
  return {
    /** @param {{model: any}} context */
    initialize: (context) => (context.model.get("recording") ? undefined : live.initialize(context)),
    /** @param {{model: any, el: HTMLElement}} context */
    render: (context) => (context.model.get("recording") ? replay(context) : live.render(context)),
  };
};

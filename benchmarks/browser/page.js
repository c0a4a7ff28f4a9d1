// Runs in the page before anything else: notes what the page goes through, and tells it every 250 ms.
// `tell` is the measuring program's. What was told stays known when the page locks up.

(() => {
  const LINE = /(\d{6})@\d{10}\.\d{3}/g;
  const LINE_END = 200; // signs that hold the start of a line and its end
  const news = { lines: [], longTasks: [], messages: 0, bytes: 0, isDone: false };
  let newest = -1;

  setInterval(() => {
    const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")];
    news.isDone = prompts.every((prompt) => /\[\d+\]/.test(prompt.textContent));
    window.tell(news);
    news.lines = [];
    news.longTasks = [];
  }, 250);

  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) news.longTasks.push([startTime, duration]);
  }).observe({ type: "longtask", buffered: true });

  window.WebSocket = class extends WebSocket {
    constructor(...where) {
      super(...where);
      if (!String(where[0]).includes("/api/kernels/")) return;
      this.addEventListener("message", ({ data }) => {
        news.messages += 1;
        news.bytes += data.byteLength ?? data.length;
      });
    }
  };

  // The number of the last line in a text, -1 if there is none. Long texts are only looked at where they end.
  const lastIn = (text) => {
    const end = text.substringData(Math.max(0, text.length - LINE_END), LINE_END);
    return Math.max(-1, ...[...end.matchAll(LINE)].map((match) => Number(match[1])));
  };

  // The same of everything below a node, from its end.
  const lastBelow = (node) => {
    if (node instanceof Text) return lastIn(node);
    for (let child = node.lastChild; child; child = child.previousSibling) {
      const found = lastBelow(child);
      if (found >= 0) return found;
    }
    return -1;
  };

  const seen = (records) => {
    const nodes = records.flatMap((record) => (record.addedNodes.length ? [...record.addedNodes] : [record.target]));
    const last = nodes.reduce((most, node) => Math.max(most, lastBelow(node)), -1);
    if (last <= newest) return;
    newest = last;
    news.lines.push([Date.now() / 1000, last]);
  };
  const what = { subtree: true, childList: true, characterData: true };
  document.addEventListener("DOMContentLoaded", () => new MutationObserver(seen).observe(document.body, what));

  // How many different lines the outputs hold.
  window.linesInOutputs = () => {
    const texts = [...document.querySelectorAll(".jp-OutputArea")].map((area) => area.textContent);
    return new Set(texts.flatMap((text) => [...text.matchAll(LINE)].map((match) => match[1]))).size;
  };

  // How many different lines the live view shows while somebody pages from the first to the last.
  window.linesByPaging = async (count, seconds) => {
    const box = document.querySelector(".ba-log");
    const found = new Set();
    const deadline = Date.now() + seconds * 1000;
    const frame = () => new Promise(requestAnimationFrame);
    box.style.height = "3000px";
    box.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
    while (found.size < count && Date.now() < deadline) {
      await frame();
      await frame();
      const rows = [...box.querySelectorAll(".ba-row")];
      for (const row of rows) for (const match of row.textContent.matchAll(LINE)) found.add(match[1]);
      const isInSight = (row) => row.offsetTop + row.offsetHeight > box.scrollTop;
      const isWaiting = rows.some((row) => row.classList.contains("ba-gap") && isInSight(row));
      if (!isWaiting) box.scrollTop += box.clientHeight;
    }
    return found.size;
  };
})();

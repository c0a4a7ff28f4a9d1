"""Reads a whole log through the view, as a person would who scrolls, and from its file."""

from tests.patience import PATIENCE_S

READ = """async ([selector, end, patience]) => {
  const box = document.querySelector(selector);
  box.style.height = '15000px';
  const frame = () => new Promise(requestAnimationFrame);
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const seen = new Map();
  const deadline = Date.now() + patience;
  await frame();
  let [covered, top] = [0, 0];
  while (covered < end && Date.now() < deadline) {
    if (covered === 0) box.dispatchEvent(new KeyboardEvent('keydown', {key: 'Home', bubbles: true}));
    else if (box.scrollTop !== top) box.scrollTop = top;
    await frame();
    for (const fold of box.querySelectorAll('.ba-fold[aria-expanded=false]')) fold.click();
    await frame();
    const rows = [...box.querySelectorAll('.ba-row')].sort((a, b) => a.offsetTop - b.offsetTop);
    const before = covered;
    for (const row of rows) {
      const start = Number(row.dataset.start);
      if (start < covered) continue;
      if (start > covered || row.classList.contains('ba-gap')) break;
      seen.set(start, row.textContent);
      covered = start + new TextEncoder().encode(row.textContent).length + 1;
      top = row.offsetTop;
    }
    if (covered === before) await wait(50);  // the page of bytes is on its way
  }
  box.style.height = '';
  return [...seen];
}"""


def shown_lines(page, end, selector=".ba-log"):
    """The lines that the view shows, from the first one on, by their offset; at most up to the byte `end`."""
    return dict(page.evaluate(READ, [selector, end, 1000 * PATIENCE_S]))


def rank_page(path):
    """The whole lines of a file of plain text by their offset."""
    lines, offset = {}, 0
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            lines[offset] = line[:-1].decode()
        offset += len(line)
    return lines


def missing(page, path, selector=".ba-log"):
    """What the file has by now and the view does not show at its place. It has to be nothing."""
    wanted = rank_page(path)
    last = max(wanted)
    shown = shown_lines(page, last + 1, selector)
    return {offset: text for offset, text in wanted.items() if shown.get(offset) != text}

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

import { kernelHost } from "../../../../batchai_magics/widgets/frontend/hosts/kernel_host.js";
import { JobSession } from "../../../../batchai_magics/widgets/frontend/job/job_session.js";
import { ProfilePanel } from "../../../../batchai_magics/widgets/frontend/job/profile_panel.js";

let sent, take, closed, kernel, model, session;

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  sent = [];
  const statusChanged = { connect: (slot) => (kernel = (status) => slot(null, status)), disconnect: () => (kernel = () => {}) };
  const widget_manager = { kernel: { statusChanged } };
  model = { widget_manager, on: (event, listener) => event === "msg:custom" && (take = listener), off: (event) => (closed = event), get: () => ({}), send: (content) => sent.push(content) };
  session = new JobSession(kernelHost(model));
});
afterEach(() => {
  session.close();
  mock.timers.reset();
});

const view = (array) => new DataView(array.buffer, array.byteOffset, array.byteLength);
const batch = (seq, more = {}, buffers = []) => take({ kind: "batch", seq, complete: false, logs: [], ...more }, buffers.map(view));
const rates = (first, more = {}) => ({ values: [{ name: "rate", first, ...more }] });
const point = (step, rate) => [new Float64Array([step]), new Int32Array([0]), ...[rate, NaN, NaN].map((v) => new Float32Array([v]))];

const line = (text) => new Uint8Array([...text].map((sign) => sign.charCodeAt(0)));
const part = (offset, size, more = {}) => ({ file: "stdout.txt", offset, size, skipped: 0, ...more });
const kinds = () => sent.map(({ kind }) => kind);

/** Lets those that wait for a reply take it. */
const answered = () => new Promise((done) => setImmediate(done));

/** What the session tells those who listen, as [kind, file, added]. */
function heard() {
  const news = [];
  session.listen((...what) => news.push(what));
  return news;
}

test("the kernel hears from time to time how far the page has come", () => {
  for (let seq = 1; seq <= 40; seq += 1) batch(seq);
  assert.deepEqual(sent.map(({ kind, seq }) => [kind, seq]), [["alive", 16], ["alive", 32]]);
});

test("outputs of a notebook that still has the view are replaced, others stay", () => {
  const viewOf = (id) => ({ data: { "application/vnd.jupyter.widget-view+json": { model_id: id } } });
  const cell = (...list) => ({ outputs: { list, get length() { return list.length; }, get: (i) => list[i], set: (i, value) => (list[i] = value) } });
  const [other, own, alone] = [cell(viewOf("x"), { data: {} }), cell({ data: {} }, viewOf("a"), { data: {} }), cell(viewOf("b"))];
  const frozen = (id) => take({ kind: "outputs", model_id: id, outputs: [{ "text/plain": "card" }, { "text/plain": "chart" }] }, []);
  frozen("a"); // a front end that does not tell what its notebook has
  model.widget_manager.context = { model: { cells: [{}, other, own, alone] } };
  frozen("a");
  frozen("a");
  frozen("b");
  take({ kind: "outputs", model_id: "x", outputs: [null, { "text/plain": "below" }] }, []);
  const texts = [other, own, alone].map(({ outputs }) => outputs.list.map(({ data }) => data["text/plain"]));
  assert.deepEqual(texts, [[undefined, "below"], [undefined, "card", "chart"], ["card"]]);
});

test("numbers of one line have their positions once", () => {
  const values = [{ name: "rate", first: 0 }, { name: "loss", first: 0, is_at_same: true }, { name: "norm", first: 0 }];
  batch(1, { values }, [...point(10, 100), new Float32Array([2]), ...point(20, 0.5)]);
  assert.deepEqual(session.points.counts, { rate: 1, loss: 1, norm: 1 });
  for (const [name, step, value] of [["rate", 10, 100], ["loss", 10, 2], ["norm", 20, 0.5]]) {
    session.points.of(name).settle();
    assert.deepEqual([session.points.of(name).steps, session.points.of(name).all], [[step], [value]]);
  }
});

test("points of a log that starts again replace the old ones", () => {
  batch(1, rates(0), point(10, 100));
  batch(2, { generation: 1, ...rates(0) }, point(1, 5));
  session.points.of("rate").settle();
  assert.deepEqual([session.points.of("rate").steps, session.points.of("rate").all], [[1], [5]]);
});

test("an answer reaches the question that it belongs to", async () => {
  const [first, second] = [session.request({ kind: "list" }), session.request({ kind: "list" })];
  take({ kind: "reply", id: sent[1].id, entries: ["b"] }, []);
  take({ kind: "reply", id: sent[0].id, text: "no such folder" }, []);
  assert.deepEqual((await second).content.entries, ["b"]);
  assert.equal((await first).content.text, "no such folder");
});

test("a view says what it has when it says hello", () => {
  batch(1, { ...rates(0), logs: [{ file: "stdout.txt", offset: 0, size: 3, skipped: 0 }] }, [
    ...point(10, 100),
    new Uint8Array([97, 98, 10]),
  ]);
  session.log("stdout.txt", 2).extend(3);
  session.enter();
  assert.deepEqual(sent.at(-1).have, { generation: 0, values: { rate: 1 }, logs: { "stdout.txt": 3 } });
});

test("points that a lost batch had are asked for again", () => {
  session.enter();
  batch(1, rates(0), point(10, 100));
  batch(3, rates(2), point(30, 120));
  assert.deepEqual(sent.map(({ kind, have }) => [kind, have.values.rate]), [["ready", undefined], ["ready", 1]]);
});

test("only what a lost batch had is asked for again", () => {
  session.enter();
  batch(1, { values: [{ name: "lr", first: 0 }] }, point(1, 0.5));
  batch(3, { values: [{ name: "lr", first: 4 }, { name: "norm", first: 0 }] }, [...point(5, 0.5), ...point(5, 0.5)]);
  assert.deepEqual(kinds(), ["ready", "ready"]);
  assert.deepEqual(sent[1].have.values, { lr: 1, norm: 1 });
});

test("a lost batch without numbers leaves a gap in the log, and nothing is asked for", () => {
  batch(1, { logs: [part(0, 4)] }, [line("one\n")]);
  batch(3, { logs: [part(10, 14)] }, [line("two\n")]);
  assert.deepEqual(session.log("stdout.txt").rows.map(({ start, end }) => [start, end]), [[0, 4], [4, 10], [10, 14]]);
  assert.deepEqual(kinds(), []);
});

test("a page that comes late takes the first batch as it is", () => {
  batch(7, rates(3), point(10, 100));
  assert.deepEqual(kinds(), []);
});

test("numbers that do not join on are asked for only when a batch was lost", () => {
  batch(1, rates(0), point(10, 100));
  batch(2, rates(9), point(90, 100));
  assert.deepEqual(kinds(), []);
});

test("a log that starts again shows its new lines alone", () => {
  batch(1, { logs: [part(0, 8)] }, [line("one\ntwo\n")]);
  batch(2, { logs: [part(0, 4, { restarted: true })] }, [line("new\n")]);
  assert.deepEqual(session.log("stdout.txt").rows.map(({ text }) => text), ["new"]);
});

test("a log knows how long its file is, also when the batch holds less", () => {
  batch(1, { logs: [part(0, 90)] }, [line("one\n")]);
  batch(2, { logs: [part(4, 50)] }, [line("two\n")]);
  assert.equal(session.log("stdout.txt").size, 90);
});

test("what several wrote is told apart, also what rank 0 wrote", () => {
  batch(1, { logs: [part(0, 4, { ranked: true }), { ...part(0, 2), file: "stderr.txt" }] }, [
    line("a\nb\n"),
    new Int32Array([0, 0, 2, 1]),
    line("c\n"),
  ]);
  assert.deepEqual(session.log("stdout.txt").rows.map(({ rank }) => rank), [0, 1]);
  assert.deepEqual(session.log("stderr.txt").rows.map(({ rank }) => rank), [undefined]);
});

test("the lines of rank 0 are not those of the whole file", () => {
  assert.notEqual(session.log("stdout.txt", 0), session.log("stdout.txt"));
  assert.equal(session.log("stdout.txt", 0), session.log("stdout.txt", 0));
  assert.notEqual(session.log("stdout.txt", 0), session.log("stdout.txt", 1));
});

test("a view says hello until the kernel answers", () => {
  session.listen(() => {});
  session.enter();
  for (const wait of [400, 600]) mock.timers.tick(wait);
  assert.deepEqual(kinds(), ["ready", "ready", "ready"]);
  batch(1);
  mock.timers.tick(5000);
  assert.equal(sent.length, 3);
});

test("a view that is out of the page does not say hello again", () => {
  session.enter();
  session.bye();
  mock.timers.tick(2000);
  assert.deepEqual(kinds(), ["ready", "bye"]);
});

test("each time that a view enters the page is told apart, and its bye belongs to it", () => {
  session.enter();
  session.bye();
  session.enter();
  assert.deepEqual(sent.map(({ kind, turn }) => [kind, turn]), [["ready", 1], ["bye", 1], ["ready", 2]]);
});

test("a view that is still looked at says no bye", () => {
  const stop = session.listen(() => {});
  session.bye();
  assert.deepEqual(kinds(), []);
  stop();
  session.bye();
  assert.deepEqual(kinds(), ["bye"]);
});

test("a kernel that is lost is asked nothing and greeted no more", () => {
  const news = heard();
  session.enter();
  kernel("restarting");
  mock.timers.tick(2000);
  session.enter();
  session.read("stdout.txt", 0);
  session.tell({ kind: "hold", on: true });
  assert.deepEqual(kinds(), ["ready"]);
  assert.deepEqual(news, [["lost", "", 0]]);
});

test("a kernel that is lost is never called busy", () => {
  const news = heard();
  session.request({ kind: "again" });
  kernel("restarting");
  model.send = () => {
    throw new Error("no kernel");
  };
  session.tell({ kind: "hold", on: true });
  mock.timers.tick(2000);
  assert.deepEqual(news, [["lost", "", 0]]);
});

test("a profile that will not come is not awaited, and cannot be asked for", (t) => {
  t.after(() => delete globalThis.document);
  globalThis.document = { createElement: () => ({ append() {}, setAttribute() {}, addEventListener() {}, replaceChildren() {}, textContent: "" }) };
  const profile = { is_running: true, text: "" };
  model.get = (name) => (name === "profile" ? profile : { state: "running", can_profile: true });
  const panel = new ProfilePanel(session);
  panel.update();
  assert.deepEqual([panel.button.textContent, panel.button.disabled], ["Profiling …", true]);
  kernel("restarting");
  assert.deepEqual([panel.button.textContent, panel.button.disabled], ["Profile", true]);
  panel.stop();
  session.bye();
  assert.equal(session.listeners.size, 0);
});

test("a place of a file is asked for once until it is answered", async () => {
  session.read("stdout.txt", 5);
  session.read("stdout.txt", 5);
  session.read("stdout.txt", 9);
  assert.deepEqual(sent.map(({ kind, offset }) => [kind, offset]), [["read", 5], ["read", 9]]);
  take({ kind: "reply", id: sent[0].id, offset: 5, size: 5 }, []);
  await answered();
  session.read("stdout.txt", 5);
  assert.equal(sent.length, 3);
});

test("a kernel that does not answer for long is called busy until it does", () => {
  const news = heard();
  session.read("stdout.txt", 0);
  mock.timers.tick(1400);
  assert.equal(session.isKernelBusy, false);
  mock.timers.tick(200);
  assert.equal(session.isKernelBusy, true);
  session.read("stdout.txt", 9);
  mock.timers.tick(2000);
  take({ kind: "reply", id: sent[0].id, offset: 0, size: 0 }, []);
  assert.equal(session.isKernelBusy, false);
  assert.deepEqual(news.filter(([kind]) => kind === "busy").length, 2);
});

test("what was not answered when the connection broke is asked for again, but no job is submitted twice", async () => {
  const listeners = {}, asked = [];
  const host = { on: (event, listener) => (listeners[event] = listener), off: () => {}, get: () => ({}), send: (content) => asked.push(content) };
  const broken = new JobSession(host);
  broken.enter();
  asked.length = 0;
  broken.read("stdout.txt", 0);
  broken.read("stdout.txt", 65536);
  const [first, second] = asked.map(({ id }) => id);
  listeners["msg:custom"]({ kind: "reply", id: first, offset: 0, size: 0 }, [view(line(""))]);
  const submitted = broken.request({ kind: "again" });
  asked.length = 0;
  listeners.connected();
  assert.deepEqual(asked.map(({ kind, id }) => [kind, id]), [["ready", undefined], ["read", second]]);
  assert.match((await submitted).content.text, /connection lost/);
  mock.timers.tick(2000);
  assert.equal(broken.isKernelBusy, true);
  listeners["msg:custom"]({ kind: "reply", id: second, offset: 65536, size: 0 }, [view(line(""))]);
  assert.equal(broken.isKernelBusy, false);
  broken.close();
});

test("a view that cannot be heard keeps what it has and says that the kernel is busy", () => {
  model.send = () => {
    throw new Error("no kernel");
  };
  session.enter();
  assert.equal(session.isKernelBusy, true);
});

test("a page of bytes says how long the file is and shows its lines", async () => {
  const news = heard();
  const read = session.read("stdout.txt", 4);
  take({ kind: "reply", id: sent.at(-1).id, offset: 4, size: 12 }, [line("two\n"), new Int32Array([0, 3])].map(view));
  await read;
  assert.deepEqual(session.log("stdout.txt").rows.map(({ start, text, rank }) => [start, text, rank]), [
    [0, undefined, undefined],
    [4, "two", 3],
    [8, undefined, undefined],
  ]);
  assert.deepEqual(news, [["page", "stdout.txt", 0]]);
});

/** Reads lines of rank 0. */
async function lines(start, end, size, text, starts) {
  const read = session.readLines("stdout.txt", 0, start, false);
  take({ kind: "reply", id: sent.at(-1).id, start, end, size }, [line(text), new Float64Array(starts)].map(view));
  await read;
}

test("the lines that a rank has written since are counted as new, the first page is not", async () => {
  const news = heard();
  await lines(0, 20, 20, "a\nb\n", [0, 10]);
  await lines(20, 40, 40, "c\n", [30]);
  await lines(40, 60, 60, "", []);
  assert.deepEqual(news, [["page", "stdout.txt", 0], ["page", "stdout.txt", 1], ["page", "stdout.txt", 0]]);
  assert.deepEqual(session.log("stdout.txt", 0).rows.map(({ text }) => text), ["a", "b", "c"]);
});

test("the lines of a rank start again with their file", async () => {
  await lines(0, 20, 20, "a\nb\n", [0, 10]);
  await lines(0, 4, 4, "n\n", [0]);
  assert.deepEqual(session.log("stdout.txt", 0).rows.map(({ text }) => text), ["n"]);
});

test("the end and its taking back are told once each", () => {
  const news = heard();
  for (const [seq, complete] of [[1, false], [2, true], [3, true], [4, false]]) batch(seq, { complete });
  assert.deepEqual(news.map(([kind]) => kind), ["complete", "complete"]);
  assert.equal(session.isComplete, false);
});

test("an answer is given once", async () => {
  const answered = session.request({ kind: "list" });
  take({ kind: "reply", id: sent[0].id, entries: [] }, []);
  await answered;
  const news = heard();
  take({ kind: "reply", id: sent[0].id, text: "again" }, []);
  assert.deepEqual(news, []);
});

test("why a part of a log cannot be read is told", async () => {
  const news = heard();
  const read = session.read("stdout.txt", 0);
  take({ kind: "reply", id: sent[0].id, text: "no such file" }, []);
  await read;
  assert.deepEqual(news, [["note", "no such file", 0]]);
});

test("two pages of a view never have the same request", () => {
  const other = new JobSession(kernelHost(model));
  for (const each of [session, other]) void each.request({ kind: "list" });
  assert.notEqual(sent[0].id, sent[1].id);
  other.close();
});

test("a session that is closed says no more, and its view hears so", () => {
  const news = heard();
  session.read("stdout.txt", 0);
  session.enter();
  session.close();
  mock.timers.tick(60_000);
  assert.deepEqual(kinds(), ["read", "ready"]);
  assert.deepEqual([news, closed], [[["closed", "", 0]], "connected"]);
});

test("a page that only looks is heard of all the same", () => {
  batch(1);
  mock.timers.tick(20_000);
  assert.deepEqual(sent.map(({ kind, seq }) => [kind, seq]), [["alive", 1]]);
  for (let seq = 2; seq <= 16; seq += 1) batch(seq);
  assert.deepEqual(kinds(), ["alive"]);
});

test("a batch tells what is new in it, and nothing else", () => {
  const news = heard();
  assert.equal(session.isAnswered, false);
  batch(1, { logs: [part(0, 4)] }, [line("one\n")]);
  batch(2, rates(0), point(10, 100));
  batch(3, { values: [{ name: "lr", first: 0 }], complete: true }, point(1, 1));
  assert.deepEqual(news, [["log", "stdout.txt", 1], ["points", "", 0], ["points", "", 0], ["complete", "", 0]]);
  assert.equal(session.isAnswered, true);
});

test("a view is kept when the kernel says so", () => {
  const news = heard();
  assert.equal(session.isKept, false);
  take({ kind: "keep" }, []);
  assert.deepEqual([session.isKept, news], [true, [["keep", "", 0]]]);
});

test("a message of no known kind is no news", () => {
  const news = heard();
  take({ kind: "rates" }, []);
  assert.deepEqual(news, []);
});

test("numbers are read wherever they lie in a message", () => {
  const raw = new Uint8Array(49);
  const unaligned = point(10, 100).map((column, i) => {
    raw.set(new Uint8Array(column.buffer), 1 + 8 * i);
    return new DataView(raw.buffer, 1 + 8 * i, column.byteLength);
  });
  take({ kind: "batch", seq: 1, complete: false, ...rates(0) }, unaligned);
  session.points.of("rate").settle();
  assert.deepEqual([session.points.of("rate").steps, session.points.of("rate").all], [[10], [100]]);
});

test("lines of a rank before those that are here are not new, and take none away", async () => {
  const news = heard();
  await lines(40, 60, 60, "c\n", [50]);
  await lines(20, 40, 60, "b\n", [30]);
  await lines(0, 20, 60, "", []);
  assert.deepEqual(news.map(([, , added]) => added), [0, 0, 0]);
  assert.deepEqual(session.log("stdout.txt", 0).rows.map(({ text }) => text), ["b", "c"]);
});

// Runs the script of the page that a server serves, over a fake document with the elements of that page:
//
//     node page.mjs http://127.0.0.1:PORT SCENARIO
//
// It prints what the scenario found as JSON. Anything that would remember something throws.

const [address, scenario] = process.argv.slice(2);

class Element {
  constructor(id = "") {
    Object.assign(this, { id, value: "", textContent: "", lang: "", hidden: false, disabled: false, children: [], listeners: {}, attributes: {} });
    this.classList = { toggle() {} };
  }
  get options() { return this.children; }
  addEventListener(name, listener) { (this.listeners[name] ??= []).push(listener); }
  setAttribute(name, value) { this.attributes[name] = value; }
  append(...more) { this.children.push(...more); }
  replaceChildren(...others) {
    this.children = others;
    if (others[0] instanceof Option) this.value = String(others[0].value);
  }
  fire(name, event = {}) {
    for (const listener of this.listeners[name] ?? []) listener({ preventDefault() {}, ...event });
  }
  focus() {}
}
class Option extends Element {
  constructor(text, value) { super(); Object.assign(this, { textContent: text, value }); }
}

const html = await (await fetch(`${address}/`)).text();
const elements = Object.fromEntries([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => [id, new Element(id)]));
const never = (name) => ({ get() { throw new Error(`the page uses ${name}`); }, set() { throw new Error(`the page uses ${name}`); } });
globalThis.document = Object.defineProperty(Object.assign(new Element(), {
  getElementById: (id) => elements[id], createElement: () => new Element(), body: new Element(),
}), "cookie", never("cookies"));
for (const name of ["localStorage", "sessionStorage", "indexedDB", "caches"]) {
  Object.defineProperty(globalThis, name, { configurable: true, ...never(name) });
}
globalThis.navigator ??= {};
globalThis.Option = Option;

const asked = []; // every request for a translation: {text, signal}
const realFetch = globalThis.fetch;
let answer = (path, options) => realFetch(address + path, options);
globalThis.fetch = (path, options = {}) => {
  if (path === "/v1/stream") asked.push({ ...JSON.parse(options.body), signal: options.signal });
  return answer(path, options);
};

const { text, result, status, fault } = elements;
const shown = () => result.children.map((line) => line.textContent).join("\n");
const tick = () => new Promise((resolve) => { setTimeout(resolve, 5); });
/** Wait until any timer of the page that was set before has run: it sets none for longer than this. */
const afterPause = () => new Promise((resolve) => { setTimeout(resolve, 400); });
async function until(condition) { while (!(await condition())) await tick(); }
async function isHeld() {
  const metrics = await (await realFetch(`${address}/metrics`)).text();
  return /^transduce_queue_sentences [1-9]/m.test(metrics);
}
function type(value, event = {}) {
  text.value = value;
  text.fire("input", event);
}

if (scenario === "glossary") {
  answer = async (path, options) => {
    if (path === "/v1/stream") return new Response("");
    const response = await realFetch(address + path, options);
    return Response.json({ ...await response.json(), glossaries: ["law"] });
  };
}
if (scenario === "keyless") {
  answer = async (path, options) => {
    const response = await realFetch(address + path, options);
    return path === "/v1/models" ? Response.json({ ...await response.json(), needs_key: true }) : response;
  };
}
const source = await (await realFetch(`${address}/web/page.js`)).text();
await import(`data:text/javascript,${encodeURIComponent(source)}`);
await until(() => elements.pair.value !== "");

const scenarios = {
  async file() {
    const files = [new File(["one <b>two</b>"], "a.html")];
    let prevented = 0;
    const event = { dataTransfer: { files, types: ["Files"] }, preventDefault() { prevented += 1; } };
    document.fire("dragover", event);
    document.fire("drop", event);
    const said = elements["file-status"];
    await until(() => said.children.length === 1);
    const [link] = said.children;
    const saved = await (await realFetch(address + link.href)).text();
    document.fire("drop", { ...event, dataTransfer: { files: [new File(["x"], "a.exe")] } });
    await until(() => !fault.hidden && fault.textContent);
    return { prevented, said: link.textContent, saved, fault: fault.textContent.includes(".exe"), isHidden: said.hidden };
  },
  async glossary() {
    const { glossary } = elements;
    type("one");
    await until(() => asked.length === 1);
    glossary.value = "law";
    glossary.fire("change");
    await until(() => asked.length === 2);
    return { offered: glossary.options.map((one) => one.textContent), isHidden: elements["glossary-choice"].hidden, asked: asked.map((one) => one.glossary ?? null) };
  },
  async typing() {
    for (const value of ["o", "on", "one"]) type(value);
    await until(() => shown() === "ONE" && result.attributes["aria-busy"] === "false");
    return { asked: asked.map((one) => one.text), busy: result.attributes["aria-busy"], lang: result.lang };
  },
  async newer() {
    type("hold");
    await until(isHeld);
    type("next");
    const wasCancelled = asked[0].signal.aborted;
    await until(() => shown() === "NEXT");
    return { wasCancelled, asked: asked.map((one) => one.text), fault: fault.textContent };
  },
  async late() {
    const held = [];
    const real = answer;
    answer = (path, options) => new Promise((resolve) => { held.push(() => resolve(real(path, { ...options, signal: undefined }))); });
    type("older");
    await until(() => held.length === 1);
    type("newer");
    await until(() => held.length === 2);
    held[1]();
    await until(() => shown() === "NEWER");
    held[0](); // it answers although it was cancelled
    for (let i = 0; i < 20; i += 1) await tick();
    return { shown: shown() };
  },
  async keyboard() {
    type("now");
    text.fire("keydown", { key: "Enter", ctrlKey: true });
    const atOnce = asked.length;
    await until(() => shown() === "NOW");
    type("日", { isComposing: true });
    text.fire("compositionend");
    await until(() => shown() === "日");
    type("hold");
    await until(() => asked.length === 3);
    text.fire("keydown", { key: "Escape" });
    await until(() => status.textContent === "Stopped.");
    return { atOnce, asked: asked.map((one) => one.text), isCancelled: asked[2].signal.aborted };
  },
  async emptied() {
    type("one");
    await until(() => shown() === "ONE");
    type("");
    const afterwards = shown();
    type("x".repeat(3000));
    return { afterwards, asked: asked.length, status: status.textContent };
  },
  async pair() {
    type("one");
    await until(() => shown() === "ONE");
    elements.pair.fire("change");
    await until(() => asked.length === 2);
    await until(() => result.attributes["aria-busy"] === "false");
    text.value = "x".repeat(3000);
    elements.pair.fire("change");
    return { asked: asked.map((one) => one.text), shown: shown(), status: status.textContent };
  },
  async keyless() {
    text.value = "one";
    elements.pair.fire("change");
    await afterPause();
    return { asked: asked.length, fault: fault.textContent, status: status.textContent };
  },
  async paused() {
    type("one");
    text.fire("keydown", { key: "Escape" });
    const stopped = status.textContent;
    await afterPause();
    return { stopped, asked: asked.length, shown: shown() };
  },
};
process.stdout.write(JSON.stringify(await scenarios[scenario]()));
process.exit(0);

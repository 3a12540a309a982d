// Runs the script of an attention page, given on standard input, over a fake document with the elements
// of that page, and prints as JSON what a reader may choose and what is drawn.

import { readFileSync } from "node:fs";

const html = readFileSync(0, "utf-8");

class Element {
  constructor(name = "", parent = null) {
    Object.assign(this, {
      name, parentElement: parent, textContent: "", hidden: false, lang: "", clientWidth: 800, children: [], attributes: {},
      style: { setProperty() {} }, classList: { toggle() {}, add() {} }, dataset: {},
    });
  }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getAttribute(name) { return this.attributes[name] ?? null; }
  removeAttribute(name) { delete this.attributes[name]; }
  append(...more) { this.children.push(...more); }
  replaceChildren(...others) { this.children = others; }
  addEventListener() {}
  closest(selector) { return this.ancestors[selector] ?? null; }
  contains() { return false; }
  querySelector() { return null; }
  querySelectorAll() { return []; }
  getContext() { return { measureText: (text) => ({ width: 8 * text.length }) }; }
  get ancestors() { return this.kept ??= { fieldset: new Element("fieldset") }; }
  get text() { return this.children.map((child) => child.text ?? String(child)).join("") || this.textContent; }
}

const elements = Object.fromEntries([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => [id, new Element(id, new Element())]));
elements.data.textContent = /id="data">(.*?)<\/script>/s.exec(html)[1];
globalThis.Option = class extends Element {};
globalThis.ResizeObserver = class { observe() {} };
globalThis.getComputedStyle = () => ({ getPropertyValue: () => "#222222" });
globalThis.window = { matchMedia: () => ({ matches: false, addEventListener() {} }), addEventListener() {} };
globalThis.document = {
  getElementById: (id) => elements[id], documentElement: new Element(), querySelectorAll: () => [], activeElement: null,
  createElement: (name) => new Element(name), createElementNS: (_, name) => new Element(name), addEventListener() {},
};

const script = [...html.matchAll(/<script>(.*?)<\/script>/gs)].at(-1)[1];
new Function(script)();

const choices = (id) => (elements[id].closest("fieldset").hidden ? null : elements[id].children.map((child) => child.text));
process.stdout.write(JSON.stringify({
  kinds: choices("kinds"),
  layers: choices("layers"),
  heads: choices("heads"),
  averages: !elements.average.parentElement.hidden,
  explainsSelf: !elements["about-self"].hidden,
  caption: elements.caption.textContent,
  drawn: elements.picture.children.length,
}));

"use strict";

// A side is the words of one column: {tokens, words, wordOf, ends}. A map is the weights of one head, or
// the average of some, between two sides: row after row, each row that of a word that attends.

const parts = JSON.parse(document.getElementById("data").textContent);

const KINDS = {
  encoder: { name: "Encoder", from: "source", to: "source", left: "Source", right: "attends to source" },
  cross: { name: "Encoder–decoder", from: "target", to: "source", left: "Translation", right: "attends to source" },
  decoder: { name: "Decoder", from: "target", to: "read", left: "Translation", right: "attends to earlier" },
};
const TITLES = {
  encoder: "Encoder self-attention",
  cross: "Encoder–decoder attention",
  decoder: "Decoder self-attention",
};
const VIEWS = { links: "Links", heat: "Heat map" };
const COLOURS = {
  light: ["#2f6db3", "#c05f1c", "#33834f", "#c13a4c", "#7a55b3", "#866436", "#15808f", "#b44a88"],
  dark: ["#7cb0ee", "#f0a066", "#7fcb98", "#f28d96", "#bba0f2", "#d3b482", "#5fc8d6", "#ee98c7"],
};
const EAST_ASIAN = { // Chinese, Japanese and Korean share characters but not their shapes
  ja: '"Hiragino Sans", "Yu Gothic", "Noto Sans CJK JP"',
  ko: '"Apple SD Gothic Neo", "Malgun Gothic", "Noto Sans CJK KR"',
  zh: '"PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC"',
};
const FONT = [
  'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans"', EAST_ASIAN[document.getElementById("picture").lang], "sans-serif",
].filter(Boolean).join(", ");
const FAINTEST = 0.01; // the smallest share that is drawn when a word is chosen
const EDGE = 24; // margin around a saved picture
const SVG = "http://www.w3.org/2000/svg";

/** Encoder and decoder may differ in depth, and a model may lack self-attention. */
function layersOf(kind) {
  return parts[0].shapes[kind][0];
}

function headsOf(kind) {
  return parts[0].shapes[kind][1];
}

function count(n) {
  return Array.from({ length: n }, (_, i) => i);
}

const state = {
  part: 0,
  kind: "cross",
  view: "links",
  layer: layersOf("cross") - 1,
  heads: new Set(count(headsOf("cross"))),
  average: false,
  words: false,
  selected: null, // a token: {side: "from" or "to", index}
  pointed: null,
};

const darkness = window.matchMedia("(prefers-color-scheme: dark)");
const byId = (id) => document.getElementById(id);
const picture = byId("picture");
let drawn = null; // what the picture shows: {svg, from, to, maps, show(token)}

// Weights

function decoded(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i, true) / 65535);
}

const weightsOf = (() => {
  const known = new Map();
  return (part, kind) => {
    const key = `${part} ${kind}`;
    if (!known.has(key)) known.set(key, decoded(parts[part][kind]));
    return known.get(key);
  };
})();

function ofHead(head) {
  const { from, to } = KINDS[state.kind];
  const part = parts[state.part];
  const [rows, columns] = [part[from].tokens.length, part[to].tokens.length];
  const start = (state.layer * headsOf(state.kind) + head) * rows * columns;
  const weights = weightsOf(state.part, state.kind).subarray(start, start + rows * columns);
  return state.words ? grouped(weights, part[from], part[to]) : weights;
}

function grouped(weights, from, to) {
  const columns = to.words.length;
  const sums = new Float32Array(from.words.length * columns);
  const counts = new Float32Array(from.words.length);
  from.wordOf.forEach((row, i) => {
    counts[row] += 1;
    to.wordOf.forEach((column, j) => {
      sums[row * columns + column] += weights[i * to.tokens.length + j];
    });
  });
  return sums.map((sum, place) => sum / counts[Math.floor(place / columns)]);
}

function averaged(maps) {
  return maps[0].map((_, place) => maps.reduce((sum, map) => sum + map[place], 0) / maps.length);
}

function shownMaps() {
  const heads = [...state.heads].sort((a, b) => a - b);
  const maps = heads.map((head) => ({
    name: `Head ${head + 1}`, colour: colourOf(head), weights: ofHead(head),
  }));
  if (!state.average || !maps.length) return maps;
  const weights = averaged(maps.map((map) => map.weights));
  return [{ name: `Average of ${headNames()}`, colour: colour("--ink"), weights }];
}

function sideOf(end) {
  const side = parts[state.part][KINDS[state.kind][end]];
  const isEnd = (word) => side.ends.includes(word);
  if (state.words) {
    return side.words.map((text, word) => ({ text, isEnd: isEnd(word), word }));
  }
  return side.tokens.map((text, token) => {
    const word = side.wordOf[token];
    return { text, isEnd: isEnd(word), word };
  });
}

// Colours and text

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function colourOf(head) {
  const palette = COLOURS[darkness.matches ? "dark" : "light"];
  const first = palette[head % palette.length];
  return head < palette.length ? first : mixed(first, colour("--ink"));
}

function mixed(one, other) {
  const channels = (hex) => [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
  const others = channels(other);
  const sums = channels(one).map((value, place) => Math.round(0.55 * value + 0.45 * others[place]));
  return `#${sums.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

function headNames() {
  const heads = [...state.heads].sort((a, b) => a - b).map((head) => head + 1);
  if (heads.length === headsOf(state.kind)) return "all heads";
  return `${heads.length === 1 ? "head" : "heads"} ${heads.join(", ")}`;
}

const pen = document.createElement("canvas").getContext("2d");

function widthOf(text, size = 14) {
  pen.font = `${size}px ${FONT}`;
  return pen.measureText(text).width;
}

function fitted(text, room, size = 14) {
  if (widthOf(text, size) <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && widthOf(`${letters.join("")}…`, size) > room) letters.pop();
  return `${letters.join("")}…`;
}

const percent = (share) => `${Math.round(100 * share)} %`;

// SVG

function make(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function makePicture(width, height) {
  return make("svg", {
    width: Math.ceil(width), height: Math.ceil(height), viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`,
    "font-family": FONT, "font-size": 14, role: "group", "aria-label": title(),
  });
}

function makeText(text, x, y, attributes = {}) {
  return make("text", { x, y, dy: "0.35em", fill: colour("--ink"), ...attributes }, text);
}

/** A word that can be pointed at and walked to: {side, index} says which. */
function makeToken(token, box, text, label) {
  const hit = make("rect", { class: "hit", rx: 5, fill: "none", "pointer-events": "all", ...box });
  const group = make("g", {
    class: "token", role: "option", tabindex: -1, "aria-selected": "false", "aria-label": label,
    "data-side": token.side, "data-index": token.index,
  }, hit, text);
  return group;
}

function makeList(end, tokens) {
  const label = end === "from" ? "Words that attend" : "Words attended to";
  return make("g", { role: "listbox", "aria-label": label }, ...tokens);
}

function labelled(words, place) {
  const word = words[place];
  return `${word.text}, ${place + 1} of ${words.length}`;
}

// Links between two columns

function linkLayout(from, to) {
  const room = picture.clientWidth;
  const isNarrow = room < 560;
  const most = isNarrow ? (room - 92) / 2 : 190;
  const widest = (words, heading) =>
    Math.min(most, Math.max(widthOf(heading, 12), ...words.map((word) => widthOf(word.text))) + 2);
  const margin = isNarrow ? 6 : 112; // for shares beside the words
  const gap = isNarrow ? 18 : 22; // between a word and its lines
  const { left: leftHeading, right: rightHeading } = KINDS[state.kind];
  const [left, right] = [widest(from, leftHeading), widest(to, rightHeading)];
  const links = Math.max(64, Math.min(340, room - left - right - 2 * (margin + gap)));
  const rowHeight = 28;
  const height = rowHeight * Math.max(from.length, to.length);
  const top = 34;
  const layout = {
    isNarrow, left, right, margin, top, height,
    from: { x: margin + left, line: margin + left + gap, step: height / from.length },
    to: { x: margin + left + 2 * gap + links, line: margin + left + gap + links, step: height / to.length },
    width: 2 * (margin + gap) + left + links + right,
  };
  layout.y = (end, index) => top + layout[end].step * (index + 0.5);
  return layout;
}

function drawLinks(from, to, maps) {
  const layout = linkLayout(from, to);
  const svg = makePicture(layout.width, layout.top + layout.height + 8);
  const all = make("g", { "aria-hidden": "true", fill: "none" }, ...linksBetween(layout, from, to, maps, null));
  const one = make("g", { "aria-hidden": "true", fill: "none" });
  svg.append(
    columnHeading(layout, "from"), columnHeading(layout, "to"), all, one,
    brackets(layout, "from", from), brackets(layout, "to", to),
    makeList("from", column(layout, "from", from)), makeList("to", column(layout, "to", to)),
  );
  const show = (token) => {
    all.setAttribute("display", token ? "none" : "inline");
    one.replaceChildren();
    if (token) one.append(...linksBetween(layout, from, to, maps, token), ...shares(layout, from, to, maps, token));
  };
  return { svg, show };
}

function columnHeading(layout, end) {
  const { x } = layout[end];
  const anchor = end === "from" ? "end" : "start";
  const text = end === "from" ? KINDS[state.kind].left : KINDS[state.kind].right;
  return makeText(text, x, 10, { "text-anchor": anchor, "font-size": 12, fill: colour("--soft"), "aria-hidden": "true" });
}

function column(layout, end, words) {
  const isLeft = end === "from";
  const room = isLeft ? layout.left : layout.right;
  const { x, step } = layout[end];
  return words.map((word, index) => {
    const y = layout.y(end, index);
    const text = makeText(fitted(word.text, room), x, y, {
      "text-anchor": isLeft ? "end" : "start", ...(word.isEnd ? { fill: colour("--soft") } : {}),
    });
    const height = Math.min(step, 28) - 2;
    const box = { x: isLeft ? x - room - 5 : x - 5, y: y - height / 2, width: room + 10, height };
    return makeToken({ side: end, index }, box, text, labelled(words, index));
  });
}

/** Bars that join the pieces of one word. */
function brackets(layout, end, words) {
  const { x, step } = layout[end];
  const place = end === "from" ? x + 11 : x - 11;
  const bars = [];
  for (let first = 0; first < words.length;) {
    let last = first;
    while (last + 1 < words.length && words[last + 1].word === words[first].word) last += 1;
    const half = Math.min(step, 28) / 2 - 6;
    const [y1, y2] = [layout.y(end, first) - half, layout.y(end, last) + half];
    if (last > first) bars.push(make("line", { x1: place, x2: place, y1, y2 }));
    first = last + 1;
  }
  return make("g", { stroke: colour("--edge"), "stroke-width": 1, "stroke-linecap": "round", "aria-hidden": "true" }, ...bars);
}

/** The more lines there could be, the fewer are drawn: from a share of 4 % on, or up to 15 %. */
function faintestOfAll(from, maps) {
  return Math.max(4, Math.min(15, Math.round(from.length * maps.length / 12))) / 100;
}

function linksBetween(layout, from, to, maps, token) {
  const links = [];
  const faintest = token ? FAINTEST : faintestOfAll(from, maps);
  maps.forEach((map, place) => {
    const shift = (place - (maps.length - 1) / 2) * Math.min(token ? 4 : 2.5, 18 / maps.length); // side by side
    for (let i = 0; i < from.length; i += 1) {
      if (token && token.side === "from" && token.index !== i) continue;
      for (let j = 0; j < to.length; j += 1) {
        if (token && token.side === "to" && token.index !== j) continue;
        const share = map.weights[i * to.length + j];
        if (share >= faintest) links.push(makeLink(layout, i, j, { share, shift, stroke: map.colour }));
      }
    }
  });
  return links;
}

function makeLink(layout, i, j, { share, shift, stroke }) {
  const [x1, x2] = [layout.from.line, layout.to.line];
  const [y1, y2] = [layout.y("from", i), layout.y("to", j)].map((y) => (y + shift).toFixed(1));
  const bend = (x2 - x1) * 0.45;
  const d = `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  return make("path", {
    d, stroke, "stroke-width": (0.6 + 3.4 * share).toFixed(2), "stroke-opacity": (0.08 + 0.87 * share).toFixed(3),
  });
}

/** Beside each word its share of what the chosen word looks at, a stretch for each head. */
function shares(layout, from, to, maps, token) {
  if (layout.isNarrow || !maps.length) return [];
  const end = token.side === "from" ? "to" : "from";
  const sign = end === "to" ? 1 : -1;
  const edge = end === "to" ? layout.to.x + layout.right + 12 : layout.from.x - layout.left - 12;
  return (end === "to" ? to : from).flatMap((_, index) => {
    const weights = maps.map((map) => shareOf(map, token, index, to.length));
    const total = weights.reduce((sum, share) => sum + share, 0) / maps.length;
    if (total < FAINTEST) return [];
    const y = layout.y(end, index);
    let x = edge;
    const stretches = weights.map((share, place) => {
      const width = 56 * share / maps.length;
      const left = sign > 0 ? x : x - width;
      x += sign * width;
      return make("rect", { x: left.toFixed(2), y: y - 3.5, width: width.toFixed(2), height: 7, fill: maps[place].colour });
    });
    const number = makeText(percent(total), x + sign * 6, y, {
      "font-size": 12, fill: colour("--soft"), "text-anchor": sign > 0 ? "start" : "end",
    });
    return [...stretches, number];
  });
}

function shareOf(map, token, other, columns) {
  return token.side === "from" ? map.weights[token.index * columns + other] : map.weights[other * columns + token.index];
}

// Heat maps, one for each map

function drawHeat(from, to, maps) {
  const [gapX, gapY] = [40, 36];
  const size = tileSize(from, to, (picture.clientWidth - gapX) / 2, maps.length > 1);
  const columns = Math.max(1, Math.min(maps.length, Math.floor((picture.clientWidth + gapX) / (size.width + gapX))));
  const rows = Math.max(1, Math.ceil(maps.length / columns));
  const svg = makePicture(columns * (size.width + gapX) - gapX, rows * (size.height + gapY) - gapY);
  const tiles = maps.map((map, place) => {
    const [x, y] = [(place % columns) * (size.width + gapX), Math.floor(place / columns) * (size.height + gapY)];
    const tile = makeTile(size, from, to, map);
    tile.group.setAttribute("transform", `translate(${x} ${y})`);
    if (place > 0) silence(tile.group);
    svg.append(tile.group);
    return tile;
  });
  const show = (token) => tiles.forEach((tile) => tile.show(token));
  return { svg, show };
}

/** Squares are a little smaller where that lets two maps stand side by side. */
function tileSize(from, to, half, areSeveral) {
  const sized = (cell, font) => {
    const widest = (words) => Math.min(120, Math.max(...words.map((word) => widthOf(word.text, font))) + 12);
    const [left, above] = [widest(from), widest(to) + 26];
    return { cell, font, left, above, width: left + cell * to.length + 4, height: above + cell * from.length + 4 };
  };
  const [full, small] = [sized(22, 13), sized(16, 12)];
  if (!areSeveral || full.width <= half || small.width > half) return full;
  return sized(Math.floor((half - small.left - 4) / to.length), 12);
}

function makeTile(size, from, to, map) {
  const cells = [];
  for (let i = 0; i < from.length; i += 1) {
    for (let j = 0; j < to.length; j += 1) {
      const share = map.weights[i * to.length + j];
      if (share >= FAINTEST) cells.push({ i, j, rect: makeCell(size, i, j, share, map.colour) });
    }
  }
  const ground = make("rect", {
    class: "ground", x: size.left, y: size.above, width: size.cell * to.length, height: size.cell * from.length,
    fill: colour("--wash"), rx: 3,
  });
  const cross = make("rect", { fill: "none", stroke: colour("--edge"), rx: 3, display: "none", "aria-hidden": "true" });
  const group = make("g", { class: "tile" },
    makeText(map.name, size.left, 8, { "font-size": 13, fill: colour("--soft"), "aria-hidden": "true" }),
    make("g", { "aria-hidden": "true" }, ground, ...cells.map((one) => one.rect)), cross,
    makeList("from", rowLabels(size, from)), makeList("to", columnLabels(size, to)),
  );
  ground.parentNode.addEventListener("pointermove", (event) => pointInto(event, size, from.length));
  ground.parentNode.addEventListener("pointerleave", () => point(null));
  const show = (token) => {
    for (const { i, j, rect } of cells) {
      const isOther = token && (token.side === "from" ? i : j) !== token.index;
      rect.setAttribute("opacity", isOther ? 0.15 : 1);
    }
    frame(cross, size, token, from.length, to.length);
  };
  return { group, show };
}

function frame(rect, size, token, rows, columns) {
  rect.setAttribute("display", token ? "inline" : "none");
  if (!token) return;
  const isRow = token.side === "from";
  const box = {
    x: isRow ? size.left : size.left + size.cell * token.index,
    y: isRow ? size.above + size.cell * token.index : size.above,
    width: size.cell * (isRow ? columns : 1), height: size.cell * (isRow ? 1 : rows),
  };
  for (const [key, value] of Object.entries(box)) rect.setAttribute(key, value);
}

function makeCell(size, i, j, share, fill) {
  return make("rect", {
    x: size.left + size.cell * j + 1, y: size.above + size.cell * i + 1, width: size.cell - 2, height: size.cell - 2,
    rx: 2, fill, "fill-opacity": share.toFixed(3),
  });
}

function rowLabels(size, words) {
  return words.map((word, index) => {
    const y = size.above + size.cell * (index + 0.5);
    const text = makeText(fitted(word.text, size.left - 10, size.font), size.left - 8, y, {
      "text-anchor": "end", "font-size": size.font, ...(word.isEnd ? { fill: colour("--soft") } : {}),
    });
    const box = { x: 1, y: y - size.cell / 2 + 1, width: size.left - 4, height: size.cell - 2 };
    return makeToken({ side: "from", index }, box, text, labelled(words, index));
  });
}

function columnLabels(size, words) {
  const room = size.above - 36;
  return words.map((word, index) => {
    const x = size.left + size.cell * (index + 0.5);
    const text = makeText(fitted(word.text, room, size.font), 0, 0, {
      transform: `translate(${x} ${size.above - 8}) rotate(-90)`, "font-size": size.font,
      ...(word.isEnd ? { fill: colour("--soft") } : {}),
    });
    const box = { x: x - size.cell / 2 + 1, y: size.above - room - 10, width: size.cell - 2, height: room + 7 };
    return makeToken({ side: "to", index }, box, text, labelled(words, index));
  });
}

/** Of several heat maps with the same words, only the first is walked through. */
function silence(group) {
  group.setAttribute("aria-hidden", "true");
  for (const element of group.querySelectorAll("[role]")) {
    element.removeAttribute("role");
    element.removeAttribute("tabindex");
    element.removeAttribute("aria-selected");
    element.removeAttribute("aria-label");
  }
}

function pointInto(event, size, rows) {
  if (event.pointerType === "touch") return;
  const box = event.currentTarget.getBoundingClientRect();
  const index = Math.floor((event.clientY - box.top) / (box.height / rows));
  point({ side: "from", index: Math.max(0, Math.min(rows - 1, index)) });
}

// The whole picture

const isSame = (one, other) => Boolean(one && other && one.side === other.side && one.index === other.index);

function title() {
  const layer = layersOf(state.kind) > 1 ? [`layer ${state.layer + 1}`] : [];
  const heads = headsOf(state.kind) > 1 ? [state.heads.size ? headNames() : "no head"] : [];
  return [TITLES[state.kind], ...layer, ...heads].join(", ");
}

function caption() {
  const isAverage = state.average && state.heads.size > 1;
  const areSome = state.view === "links" && state.heads.size > 0;
  const least = areSome ? `; lines from ${percent(faintestOfAll(drawn.from, drawn.maps))} on` : "";
  return `${title()}${isAverage ? ", averaged" : ""}${least}`;
}

function draw() {
  const hadFocus = picture.contains(document.activeElement);
  const [from, to, maps] = [sideOf("from"), sideOf("to"), shownMaps()];
  drawn = { from, to, maps, ...(state.view === "links" ? drawLinks : drawHeat)(from, to, maps) };
  picture.replaceChildren(drawn.svg);
  byId("caption").textContent = caption();
  state.pointed = null;
  show();
  if (hadFocus && state.selected) tokenElement(state.selected)?.focus();
}

function tokenElement(token) {
  return drawn.svg.querySelector(`[role=option][data-side=${token.side}][data-index="${token.index}"]`);
}

function show() {
  const token = state.pointed ?? state.selected;
  drawn.show(token);
  for (const element of drawn.svg.querySelectorAll(".token")) {
    const own = tokenOf(element);
    const isSelected = isSame(own, state.selected);
    element.firstChild.setAttribute("fill", isSame(own, token) ? colour("--wash") : "none");
    if (!drawn[own.side][own.index].isEnd) element.lastChild.setAttribute("opacity", emphasis(own, token));
    if (element.hasAttribute("role")) {
      element.setAttribute("aria-selected", isSelected);
      const isStop = state.selected?.side === own.side ? isSelected : own.index === 0;
      element.setAttribute("tabindex", isStop ? 0 : -1);
    }
  }
  summarise(token);
}

/** How strongly a word is written while another is chosen. */
function emphasis(own, token) {
  if (!token || isSame(own, token)) return 1;
  if (own.side === token.side) return 0.65;
  return 0.65 + 0.35 * Math.min(1, 4 * meanShare(token, own.index));
}

function meanShare(token, other) {
  const { maps, to } = drawn;
  return maps.reduce((sum, map) => sum + shareOf(map, token, other, to.length), 0) / (maps.length || 1);
}

function summarise(token) {
  const summary = byId("summary");
  summary.classList.toggle("idle", !token);
  summary.textContent = token && drawn.maps.length ? sentence(token) : idle();
}

function idle() {
  return state.heads.size ? "Choose a word to see what it attends to." : "No head is chosen: choose one above.";
}

function sentence(token) {
  const [own, others] = token.side === "from" ? [drawn.from, drawn.to] : [drawn.to, drawn.from];
  const ranked = others
    .map((word, index) => ({ text: word.text, share: meanShare(token, index) }))
    .filter((one) => one.share >= FAINTEST)
    .sort((a, b) => b.share - a.share);
  const best = ranked.slice(0, 4).map((one) => `${quoted(one.text)} ${percent(one.share)}`);
  const verb = token.side === "from" ? "attends to" : "is attended to by";
  return `${quoted(own[token.index].text)} ${verb} ${best.join(", ") || "no word by 1 % or more"}.`;
}

const quoted = (text) => `\u2068“${text}”\u2069`; // isolated, so that a script from right to left stays in place

// Choosing words

const tokenOf = (element) => ({ side: element.dataset.side, index: Number(element.dataset.index) });

function point(token) {
  if (isSame(token, state.pointed) || (!token && !state.pointed)) return;
  state.pointed = token;
  show();
}

function select(token) {
  state.selected = token;
  show();
}

const tokenAt = (event) => event.target.closest?.(".token");

picture.addEventListener("pointerover", (event) => {
  if (event.pointerType === "touch") return;
  const element = tokenAt(event);
  if (element) point(tokenOf(element));
});
picture.addEventListener("pointerout", (event) => {
  if (tokenAt(event) && !tokenAt({ target: event.relatedTarget ?? picture })) point(null);
});
// A word is chosen where the press begins, wherever it ends. A second press clears the choice.
let pressed = { token: null, again: false };
picture.addEventListener("pointerdown", (event) => {
  const element = tokenAt(event);
  const token = element ? tokenOf(element) : null;
  pressed = { token, again: isSame(token, state.selected) };
});
picture.addEventListener("click", () => {
  if (!pressed.token || pressed.again) state.pointed = null;
  select(pressed.again ? null : pressed.token);
  pressed = { token: null, again: false };
});
picture.addEventListener("focusin", (event) => {
  const element = tokenAt(event);
  if (element && !pressed.again) select(tokenOf(element));
});
picture.addEventListener("keydown", (event) => {
  pressed.again = false;
  const element = tokenAt(event);
  if (!element || event.altKey || event.ctrlKey || event.metaKey) return;
  const token = tokenOf(element);
  if (event.key === "Escape") select(null);
  else if (event.key === "Enter" || event.key === " ") select(isSame(token, state.selected) ? null : token);
  else if (!walk(token, event.key)) return;
  event.preventDefault();
});

function walk(token, key) {
  const next = stepped(token, key);
  if (!next) return false;
  const count = drawn[next.side].length;
  const index = Math.max(0, Math.min(count - 1, next.index));
  state.pointed = null;
  const element = tokenElement({ side: next.side, index });
  element.focus();
  element.scrollIntoView({ block: "nearest", inline: "nearest" });
  return true;
}

/** Where a key leads: along the words of a side, or across to the other side. */
function stepped({ side, index }, key) {
  const last = drawn[side].length - 1;
  if (key === "Home") return { side, index: 0 };
  if (key === "End") return { side, index: last };
  const isAcross = state.view === "heat" && side === "to"; // words that stand side by side
  const [back, on] = isAcross ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
  if (key === back) return { side, index: index - 1 };
  if (key === on) return { side, index: index + 1 };
  if (!key.startsWith("Arrow")) return null;
  return { side: side === "from" ? "to" : "from", index };
}

// Choices

/** A choice between one thing is none. */
function hideUnlessSeveral(id, choices) {
  byId(id).closest("fieldset").hidden = choices.length < 2;
}

function makeSegments(id, choices, chosen, choose) {
  hideUnlessSeveral(id, choices);
  byId(id).replaceChildren(...choices.map(([value, name]) => {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), {
      type: "radio", name: id, value, checked: value === chosen,
    });
    input.addEventListener("change", () => choose(value));
    label.append(input, Object.assign(document.createElement("span"), { textContent: name }));
    return label;
  }));
}

function change(changes) {
  const meant = ["part", "kind", "words"].some((name) => name in changes);
  Object.assign(state, changes, meant ? { selected: null } : {});
  draw();
}

function chooseKind(kind) {
  const heads = headsOf(kind) === headsOf(state.kind) ? state.heads : new Set(count(headsOf(kind)));
  change({ kind, heads, layer: Math.min(state.layer, layersOf(kind) - 1) });
  makeLayers();
  makeHeads();
}

function makeLayers() {
  const choices = count(layersOf(state.kind)).map((layer) => [layer, String(layer + 1)]);
  makeSegments("layers", choices, state.layer, (layer) => change({ layer }));
}

function makeHeads() {
  hideUnlessSeveral("heads", count(headsOf(state.kind)));
  byId("average").parentElement.hidden = headsOf(state.kind) < 2;
  byId("heads").replaceChildren(...count(headsOf(state.kind)).map((head) => {
    const button = Object.assign(document.createElement("button"), { type: "button" });
    const dot = Object.assign(document.createElement("span"), { className: "dot" });
    dot.style.setProperty("--colour", colourOf(head));
    button.setAttribute("aria-label", `Head ${head + 1}`);
    button.append(dot, String(head + 1));
    button.addEventListener("click", () => toggle(head));
    return button;
  }));
  pressHeads();
}

function pressHeads() {
  [...byId("heads").children].forEach((button, head) => button.setAttribute("aria-pressed", state.heads.has(head)));
}

function toggle(head) {
  if (!state.heads.delete(head)) state.heads.add(head);
  chooseHeads([...state.heads]);
}

function chooseHeads(heads) {
  state.heads = new Set(heads);
  pressHeads();
  draw();
}

function firstWords({ source }) {
  const text = source.words.filter((_, word) => !source.ends.includes(word)).join(" ");
  return text.length > 32 ? `${[...text].slice(0, 30).join("")}…` : text;
}

function makeChoices() {
  const kinds = Object.entries(KINDS).filter(([kind]) => layersOf(kind)).map(([kind, { name }]) => [kind, name]);
  makeSegments("kinds", kinds, state.kind, chooseKind);
  byId("about-self").hidden = kinds.length < 2;
  makeSegments("views", Object.entries(VIEWS), state.view, (view) => change({ view }));
  makeLayers();
  makeHeads();
  byId("all").addEventListener("click", () => chooseHeads(count(headsOf(state.kind))));
  byId("none").addEventListener("click", () => chooseHeads([]));
  for (const name of ["average", "words"]) {
    byId(name).checked = state[name];
    byId(name).addEventListener("change", (event) => change({ [name]: event.target.checked }));
  }
  byId("part-choice").hidden = parts.length < 2;
  byId("part").append(...parts.map((part, place) => new Option(`${place + 1}: ${firstWords(part)}`, place)));
  byId("part").addEventListener("change", (event) => change({ part: Number(event.target.value) }));
}

// Files

function standalone() {
  const copy = drawn.svg.cloneNode(true);
  copy.setAttribute("xmlns", SVG);
  for (const name of ["role", "tabindex", "aria-selected", "aria-label", "aria-hidden", "class"]) {
    [copy, ...copy.querySelectorAll(`[${name}]`)].forEach((element) => element.removeAttribute(name));
  }
  const [width, height] = ["width", "height"].map((name) => Number(copy.getAttribute(name)) + 2 * EDGE);
  const place = { x: -EDGE, y: -EDGE, width, height };
  copy.setAttribute("viewBox", `${-EDGE} ${-EDGE} ${width} ${height}`);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.prepend(make("title", {}, title()), make("rect", { ...place, fill: colour("--paper") }));
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

function save(blob, ending) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `attention-${state.kind}-layer-${state.layer + 1}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function savePng() {
  const image = new Image();
  const address = URL.createObjectURL(standalone());
  image.addEventListener("load", () => {
    const scale = Math.min(2, 8192 / Math.max(image.width, image.height));
    const canvas = Object.assign(document.createElement("canvas"), {
      width: image.width * scale, height: image.height * scale,
    });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(address);
    canvas.toBlob((blob) => save(blob, "png"));
  });
  image.src = address;
}

byId("save-svg").addEventListener("click", () => save(standalone(), "svg"));
byId("save-png").addEventListener("click", savePng);

// Start

for (const text of document.querySelectorAll("dd")) text.classList.toggle("long", text.textContent.length > 140);
makeChoices();
draw();
darkness.addEventListener("change", () => {
  makeHeads();
  draw();
});
let lastWidth = picture.clientWidth;
new ResizeObserver(() => {
  if (picture.clientWidth === lastWidth || !picture.clientWidth) return; // 0 in a hidden frame
  lastWidth = picture.clientWidth;
  draw();
}).observe(picture);

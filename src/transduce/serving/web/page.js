// A text is sent to /v1/stream as it is typed; its lines are received as JSON objects, one a line, as they are
// translated. A newer text cancels the request of the older one. Nothing is stored.

const byId = (id) => document.getElementById(id);
const [form, text, result, status, fault] = ["form", "text", "result", "status", "fault"].map(byId);
const N_BEST = 4;
const LONG = 300; // texts of more characters are shown in smaller type
const MAX_TYPED = 2000; // longer texts are translated only when asked
const PAUSE_MS = 300; // how long one stops typing before the text is sent
const SLOW_MS = 700; // only a translation that takes longer is said to be in progress

let server = null; // the response of /v1/models
let lines = []; // of the last translation: {source, text, alternatives, note, …}
let asked = null; // the pair of languages of the last translation, and its glossary
let running = null; // an AbortController while a translation is coming
let pause = 0; // the timer that waits for a pause in typing; 0: none does
let slow = 0; // the timer that says that a translation takes long

// The server

async function problemOf(response) {
  const said = await response.json().catch(() => ({}));
  const wait = response.headers.get("Retry-After");
  const again = wait ? ` (in ${wait} s)` : "";
  return new Error(`${said.error ?? `The server answered ${response.status}.`}${again}`);
}

function headers() {
  const key = byId("key").value.trim();
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function* translated(question, signal) {
  const body = JSON.stringify(question);
  const response = await fetch("/v1/stream", { method: "POST", headers: headers(), body, signal });
  if (!response.ok) throw await problemOf(response);
  let rest = "";
  for await (const piece of pieces(response.body.pipeThrough(new TextDecoderStream()))) {
    const rows = (rest + piece).split("\n");
    rest = rows.pop();
    for (const row of rows) {
      const line = JSON.parse(row);
      if (line.error) throw new Error(line.error);
      yield line;
    }
  }
  if (rest) throw new Error("The connection was closed early.");
}

async function* pieces(stream) {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

// Translating

const chosenPair = () => server.pairs[Number(byId("pair").value)];

function cancel() {
  clearTimeout(pause);
  clearTimeout(slow);
  pause = 0;
  const older = running;
  running = null; // whatever it still answers is ignored
  older?.abort();
}

/** What follows a change of the text or of the languages: a translation after a pause, unless it is long or lacks the key. */
function changed() {
  count();
  cancel();
  if (!text.value.trim()) return clear();
  if (!server) return;
  const isReady = text.value.length <= MAX_TYPED && (!server.needs_key || byId("key").value.trim());
  if (isReady) pause = setTimeout(translate, PAUSE_MS);
  else clear("Press Translate or Ctrl + Enter.");
}

/** Stop the translation that is coming, or that would be asked for after the pause. */
function stop() {
  if (running) running.abort();
  else if (pause) {
    cancel();
    clear("Stopped.");
  }
}

function clear(said = "") {
  lines = [];
  result.replaceChildren();
  fault.hidden = true;
  end(said);
}

async function translate() {
  cancel();
  if (!text.value.trim() || !server) return;
  const own = (running = new AbortController());
  asked = { ...chosenPair(), glossary: byId("glossary").value };
  begin();
  const { source, target } = asked;
  const words = asked.glossary ? { glossary: asked.glossary } : {};
  let isFirst = true;
  try {
    for await (const line of translated({ text: text.value, source, target, n_best: N_BEST, ...words }, own.signal)) {
      if (running !== own) return;
      addLine(line, isFirst);
      isFirst = false;
    }
    if (running === own) end("");
  } catch (problem) {
    if (running !== own) return;
    if (isFirst) clear();
    if (problem.name === "AbortError") end("Stopped.");
    else {
      end("");
      complain(problem instanceof TypeError ? "The server cannot be reached." : problem.message);
    }
  }
}

/** The older translation stays until the first line of the new one, so that nothing flickers. */
function begin() {
  fault.hidden = true;
  byId("look").disabled = byId("stop").hidden = true;
  result.setAttribute("aria-busy", "true");
  status.textContent = "";
  slow = setTimeout(() => {
    byId("stop").hidden = false;
    status.textContent = "Translating…";
  }, SLOW_MS);
}

function addLine(line, isFirst) {
  if (isFirst) {
    lines = [];
    result.replaceChildren();
    result.lang = asked.target;
  }
  lines.push(line);
  result.append(Object.assign(document.createElement("p"), { textContent: line.text, dir: "auto" }));
  const total = text.value.split("\n").length;
  if (total > 1 && !byId("stop").hidden) status.textContent = `Translating… ${lines.length} of ${total} lines`;
}

function end(said) {
  running = null;
  clearTimeout(slow);
  result.setAttribute("aria-busy", "false");
  status.textContent = said;
  byId("stop").hidden = true;
  byId("copy").hidden = !lines.length || !navigator.clipboard; // it exists only over HTTPS and on localhost
  showInside();
}

function complain(message) {
  fault.textContent = message;
  fault.hidden = false;
}

// Alternatives and attention of one line

function showInside() {
  const said = lines.map((line, place) => ({ ...line, place })).filter((line) => line.text);
  byId("inside").hidden = !said.length;
  byId("line-choice").hidden = said.length < 2;
  byId("line").replaceChildren(...said.map(({ place, source }) => new Option(`${place + 1}: ${shortened(source)}`, place)));
  showLine();
}

const shortened = (source) => (source.length > 40 ? `${[...source].slice(0, 38).join("")}…` : source);
const chosenLine = () => lines[Number(byId("line").value)];

function showLine() {
  const line = byId("line").options.length ? chosenLine() : null;
  byId("alternatives").replaceChildren(...(line?.alternatives ?? []).map(makeAlternative));
  byId("note").textContent = line?.note ?? "";
  byId("note").hidden = !line?.note;
  byId("draw").hidden = !line?.text.startsWith("(TOP ");
  byId("look").disabled = (line?.source.length ?? 0) > (server?.max_attention_characters ?? 0);
}

function makeAlternative({ text: said, score }) {
  const item = document.createElement("li");
  item.lang = asked.target;
  const shown = Object.assign(document.createElement("span"), {
    className: "score", textContent: score === null ? "" : score.toFixed(2).replace("-", "−"),
    title: "Log-probability, divided by the length penalty",
  });
  item.append(Object.assign(document.createElement("span"), { textContent: said, dir: "auto" }), shown);
  return item;
}

/** Post fields to the frame of the dialog, which shows the answer. */
function showInFrame(form, fields) {
  form.replaceChildren(...Object.entries(fields).map(([name, value]) =>
    Object.assign(document.createElement("textarea"), { name, value })));
  byId("attention").showModal();
  form.submit();
}

function look() {
  showInFrame(byId("ask"), {
    text: chosenLine().source, source: asked.source, target: asked.target, glossary: asked.glossary,
    api_key: byId("key").value.trim(),
  });
}

// Files

/** Send a file, and offer its translation as a link; the server forgets it after a few minutes. */
async function translateFile(file) {
  if (!file || !server) return;
  fault.hidden = true;
  const said = byId("file-status");
  said.hidden = false;
  said.textContent = `Translating ${file.name}…`;
  const { source, target } = chosenPair();
  const body = new FormData();
  for (const [name, value] of Object.entries({ source, target, file })) body.append(name, value);
  const { Authorization } = headers();
  try {
    const response = await fetch("/translate_file", { method: "POST", headers: Authorization ? { Authorization } : {}, body });
    if (!response.ok) throw await problemOf(response);
    const { pathname } = new URL((await response.json()).translatedFileUrl);
    const link = Object.assign(document.createElement("a"), { href: pathname, textContent: `Save the translation of ${file.name}` });
    link.setAttribute("download", "");
    said.replaceChildren(link);
  } catch (problem) {
    said.hidden = true;
    complain(problem instanceof TypeError ? "The server cannot be reached." : problem.message);
  }
}

function dropped(event) {
  const [file] = event.dataTransfer?.files ?? [];
  if (!file) return;
  event.preventDefault(); // or the browser would leave the page and open the file
  translateFile(file);
}

// Start

function count() {
  const letters = [...text.value].length;
  byId("count").textContent = `${letters.toLocaleString("en")} ${letters === 1 ? "character" : "characters"}`;
  document.body.classList.toggle("long", letters > LONG);
}

async function loadModels() {
  const response = await fetch("/v1/models");
  if (!response.ok) throw await problemOf(response);
  server = await response.json();
  byId("pair").replaceChildren(...server.pairs.map((pair, place) =>
    new Option(`${pair.source_name} → ${pair.target_name}`, place)));
  byId("glossary").replaceChildren(new Option("No glossary", ""), ...server.glossaries.map((name) => new Option(name, name)));
  byId("glossary-choice").hidden = !server.glossaries.length;
  byId("key-choice").hidden = !server.needs_key;
  text.lang = chosenPair().source;
  if (text.value.trim()) changed();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  translate();
});
text.addEventListener("input", (event) => { if (!event.isComposing) changed(); });
text.addEventListener("compositionend", changed);
byId("pair").addEventListener("change", () => {
  text.lang = chosenPair().source;
  changed();
});
byId("glossary").addEventListener("change", changed);
byId("file").addEventListener("change", () => {
  translateFile(byId("file").files[0]);
  byId("file").value = ""; // so that the same file can be chosen again
});
// Anywhere on the page: beside the form, the browser would open the file in its place.
document.addEventListener("dragover", (event) => { if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); });
document.addEventListener("drop", dropped);
byId("line").addEventListener("change", showLine);
byId("stop").addEventListener("click", () => {
  stop();
  text.focus(); // the button is about to be hidden
});
byId("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(lines.map((line) => line.text).join("\n"));
  status.textContent = "Copied.";
});
byId("look").addEventListener("click", look);
byId("draw").addEventListener("click", () => showInFrame(byId("ask-tree"), { text: chosenLine().text }));
byId("close").addEventListener("click", () => byId("attention").close());
byId("attention").addEventListener("close", () => { byId("frame").contentWindow.location.replace("about:blank"); });
count();
loadModels().catch((problem) => complain(problem.message));

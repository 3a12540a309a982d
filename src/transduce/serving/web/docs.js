// Shows /openapi.json: every path with its request, its responses, and a command to try it.

const byId = (id) => document.getElementById(id);
const DEEPEST = 4;
let api = null;

function make(name, attributes = {}, ...children) {
  const element = Object.assign(document.createElement(name), attributes);
  element.append(...children);
  return element;
}

function resolved(schema = {}) {
  if (!schema.$ref) return schema;
  return schema.$ref.split("/").slice(1).reduce((found, part) => found?.[part], api) ?? {};
}

function typeOf(given) {
  const schema = resolved(given);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return [...new Set(choices.map(typeOf))].join(" or ");
  if (schema.prefixItems) return `[${schema.prefixItems.map(typeOf).join(", ")}]`;
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  return schema.type === "null" ? "null" : schema.type ?? "anything";
}

function boundsOf(given) {
  const schemas = [given, resolved(given), ...(given.anyOf ?? []).map(resolved)];
  const first = (name) => schemas.find((schema) => schema[name] !== undefined)?.[name];
  const range = [["minimum", "from"], ["maximum", "to"], ["exclusiveMaximum", "below"]]
    .filter(([name]) => first(name) !== undefined)
    .map(([name, word]) => `${word} ${first(name)}`);
  const usual = given.default;
  return [...range, ...(usual === undefined || usual === null ? [] : [`default ${JSON.stringify(usual)}`])];
}

/** Finds the object in a schema: itself, the items of a list, or one of its alternatives. */
function objectIn(given) {
  const schema = resolved(given);
  if (schema.properties) return schema;
  const inner = schema.items ? [schema.items] : schema.anyOf ?? [];
  return inner.map(objectIn).find(Boolean);
}

function makeFields(schema, depth = 0) {
  const required = new Set(schema.required ?? []);
  const needed = ([name]) => (required.has(name) ? 0 : 1);
  const fields = Object.entries(schema.properties).sort((one, other) => needed(one) - needed(other));
  return make("dl", {}, ...fields.flatMap(([name, field]) => {
    const facts = [typeOf(field), ...boundsOf(field)].join(", ");
    const below = depth < DEEPEST ? objectIn(field) : null;
    const about = make("dd", {}, make("span", { className: "soft", textContent: `${facts}. ` }), field.description ?? "");
    if (below) about.append(makeFields(below, depth + 1));
    return [make("dt", { textContent: required.has(name) || depth ? name : `${name}?` }), about];
  }));
}

function exampleOf(schema) {
  const entries = Object.entries(schema.properties)
    .filter(([name, field]) => (schema.required ?? []).includes(name) || field.examples)
    .map(([name, field]) => [name, field.examples?.[0] ?? field.default ?? ""]);
  return JSON.stringify(Object.fromEntries(entries));
}

function makeCommand(method, path, schema) {
  const address = `${location.origin}${path}`;
  const body = schema ? ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${exampleOf(schema)}'` : "";
  return make("pre", { textContent: `curl ${address}${body}` });
}

function makeAnswers(responses) {
  return make("dl", {}, ...Object.entries(responses).flatMap(([status, response]) => {
    const about = make("dd", { textContent: response.description });
    const content = Object.values(response.content ?? {})[0]?.schema;
    const below = status.startsWith("2") && content ? objectIn(content) : null;
    if (below) about.append(makeFields(below, 1));
    return [make("dt", { textContent: status }), about];
  }));
}

function makeOperation(path, method, operation) {
  const body = Object.values(operation.requestBody?.content ?? {})[0]?.schema;
  const schema = body ? objectIn(body) : null;
  const inside = make("div", {}, makeCommand(method, path, schema));
  if (schema) inside.append(make("h4", { textContent: "Request" }), makeFields(schema));
  inside.append(make("h4", { textContent: "Responses" }), makeAnswers(operation.responses));
  return make("article", {}, make("details", {},
    make("summary", {},
      make("h3", { textContent: `${method.toUpperCase()} ${path}` }),
      make("span", { className: "soft", textContent: operation.description ?? "" })),
    inside));
}

async function show() {
  api = await (await fetch("/openapi.json")).json();
  byId("about").textContent = api.info.description.replaceAll("`", "");
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })));
  for (const tag of [...new Set(operations.map(({ operation }) => operation.tags[0]))]) {
    const its = operations.filter(({ operation }) => operation.tags[0] === tag);
    byId("paths").append(make("h2", { textContent: tag }),
      ...its.map(({ path, method, operation }) => makeOperation(path, method, operation)));
  }
}

show().catch(() => { byId("about").textContent = "The server cannot be reached."; });

// Parts that several screens have: sentences with links, values, a screen that follows one question.

import { card, h, pre, replace, shell, toast } from "./dom.js";
import { bytes, pretty, preview, shortId } from "./format.js";
import { pager, table } from "./list.js";
import { changed, go, read, to } from "./route.js";

const SCREEN = { document: "documents", function: "graph", run: "workflows", event: "events", workflow: "workflows" };

/** A piece of a sentence; with a kind it leads to the thing. */
export const part = ({ text, kind, target }, kindOf = "") =>
  kind ? h("a", { class: kindOf, href: kind === "workflow" ? to("workflows", "", { workflow: target }) : to(SCREEN[kind], target), title: target }, shortId(text)) : shortId(text);
export const sentence = (parts) => parts.map((each) => part(each));
const CHIPS = 8; // the others after a click
export function chips(parts, none) {
  const one = (each) => (each.kind ? part(each, "chip") : h("span", { class: "chip" }, shortId(each.text)));
  const rest = parts.length > CHIPS + 1 ? parts.slice(CHIPS) : [];
  const more = rest.length > 0 && h("button", { class: "chip", type: "button", onclick: () => more.replaceWith(...rest.map(one)) }, `${rest.length} more`);
  return h("div", { class: "links" }, parts.length ? [parts.slice(0, parts.length - rest.length).map(one), more] : h("span", { class: "quiet" }, none));
}
export const addressChips = (addresses, none) => chips(addresses.map((text) => ({ text, kind: "document", target: text })), none);

/** A value in one line; `ValueText` or null. */
export function valueLine(value, most) {
  if (!value) return h("span", { class: "faint" }, "none");
  if (value.hidden) return h("span", { class: "faint" }, value.hidden);
  return h("span", { title: value.text.slice(0, 400) }, value.cut ? `${value.text.slice(0, most ?? 80)}… (${bytes(value.size)})` : preview(value.text, most));
}

/** A value with lines; `more` loads it whole. */
export function valueBlock(label, value, more) {
  if (!value) return h("p", { class: "quiet" }, "There is no value.");
  if (value.hidden) return h("p", { class: "quiet" }, value.hidden);
  return [pre(label, value.cut ? value.text : pretty(value.text)), value.cut && h("p", { class: "quiet" }, `Cut: the whole has ${bytes(value.size)}. `, more && h("button", { class: "button", type: "button", onclick: more }, "Load all"))];
}

/** An element that follows one question. `draw(record)` returns its content; `every`: asked again after so many ms. `close` ends it. */
export function following(app, question, draw, { kind = "div", attributes = {}, failed, every } = {}) {
  const element = h(kind, { ...attributes, "aria-busy": "true" });
  let shown;
  const show = (record) => {
    element.removeAttribute("aria-busy");
    const text = every && JSON.stringify(record);
    if (every && text === shown) return;
    shown = text;
    const open = [...element.querySelectorAll("details[open]")].map((each) => each.dataset.name);
    const focused = element.contains(document.activeElement) ? document.activeElement.getAttribute("href") ?? document.activeElement.textContent : undefined;
    replace(element, draw(record));
    for (const each of element.querySelectorAll("details")) if (open.includes(each.dataset.name)) each.open = true;
    if (focused !== undefined) [...element.querySelectorAll("a,button")].find((each) => (each.getAttribute("href") ?? each.textContent) === focused)?.focus({ preventScroll: true });
  };
  const fail = (error) => {
    element.removeAttribute("aria-busy");
    replace(element, (failed ?? refusal)(error));
  };
  if (!every) return { element, close: app.watch(question, show, fail) };
  const again = () => app.ask(question).then(show, fail);
  const timer = setInterval(() => !document.hidden && app.link.isOpen && again(), every);
  again();
  return { element, again, close: () => clearInterval(timer) };
}

/** A question that was refused, in the engine's words. */
export const refusal = (error) => h("div", { class: "empty" }, h("h2", {}, "This cannot be answered now"), h("p", { class: "quiet" }, error.message), error.code && shell(`headwater explain ${error.code}`));

export const page = (title, note, ...children) => h("div", { class: "page" }, h("div", { class: "head" }, h("h1", {}, title), note && h("p", {}, note)), children);
export const crumb = (href, text) => h("a", { href, class: "quiet back" }, text);
export { card, toast };

/** A paged table of one question, live. `rows(record)`, `key(row)`, `after`: the field of the question for the next page. */
export function paged(app, question, { label, columns, rows, key, link, none, what = "rows", after = "after", field = after, total, head }) {
  const lines = table(label, columns);
  const foot = h("div", {});
  const above = h("div", {});
  const nothing = h("div", {}, none);
  const element = h("div", { class: "paged", "aria-busy": "true" }, above, lines.element, nothing, foot);
  const close = app.watch(question, (record) => {
    element.removeAttribute("aria-busy");
    if (foot.parentNode !== element) replace(element, above, lines.element, nothing, foot); // after an error
    const found = rows(record);
    lines.show(found, key, { link, chosen: read().what || undefined });
    nothing.hidden = found.length > 0;
    lines.element.hidden = !found.length;
    if (head) replace(above, head(record));
    const all = total?.(record);
    replace(foot, found.length > 0 && pager({ count: found.length, what: all === undefined ? what : `of ${all.toLocaleString("en")} ${what}`, next: record.next, onnext: () => go(changed({ [field]: record.next })), first: question[after], onfirst: () => go(changed({ [field]: "" })) }));
  }, (error) => { element.removeAttribute("aria-busy"); replace(element, refusal(error)); });
  return { element, close };
}

/** A screen that is made anew for each address, from parts that follow questions. */
export function screen(parts, { flush = false, shown } = {}) {
  const made = parts.filter((each) => each?.close);
  return { flush, shown, element: undefined, close() { for (const each of made) each.close(); } };
}
export const whole = (title, note, parts) => ({ ...screen(parts), element: page(title, note, parts.map((each) => each?.element ?? each)) });
export const tabs = (name, names, query = {}) => h("nav", { class: "tabs", "aria-label": "Kinds" }, names.map(([value, text, count]) => h("a", { href: to(read().screen, "", { ...query, [name]: value }), "aria-current": (read().query[name] ?? "") === value ? "true" : null }, text, count !== undefined && h("span", { class: "count num" }, ` ${count.toLocaleString("en")}`))));

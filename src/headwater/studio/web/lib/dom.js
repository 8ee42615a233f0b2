// Elements without templates: what comes from a space only ever becomes a text node or an attribute.

const SVG = "http://www.w3.org/2000/svg";
const SAFE_LINK = /^(#|\/(?!\/))/;

const UNSEEN = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
/** Control, invisible and bidirectional characters as their numbers: none may hide or turn what is beside it. */
export const visible = (text) => String(text).replace(UNSEEN, (each) => `[U+${each.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
export const isVisible = (text) => text.search(UNSEEN) < 0;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "href" && !SAFE_LINK.test(value)) continue; // no javascript:, no other site
    else element.setAttribute(name, value === true ? "" : name === "title" || name === "aria-label" ? visible(value) : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const replace = (parent, ...children) => parent.replaceChildren(...children.flat(Infinity).filter((each) => each || each === 0));

/** Read out by screen readers. */
export const announce = (text) => { document.getElementById("live").textContent = text; };

const ICONS = {
  overview: "M3 10.500 12 4l9 6.500V20h-6v-6H9v6H3z",
  functions: "M5 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4zm0 12a2 2 0 1 0 0-4 2 2 0 0 0 0 4zm14-6a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM7 6c6 0 4 6 10 6M7 18c6 0 4-6 10-6",
  documents: "M6 3h8l5 5v13H6zM14 3v5h5M9 13h7M9 17h5",
  events: "M13 3 5 14h6l-1 7 8-11h-6z",
  workflows: "M4 6h6v5H4zM14 13h6v5h-6zM10 8.500h4a3 3 0 0 1 3 3V13",
  resources: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  pieces: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  server: "M4 5h16v6H4zM4 13h16v6H4zM8 8h.010M8 16h.010",
  query: "M5 7l5 5-5 5M12 18h7",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16.500 16.500 21 21",
  theme: "M12 3v2M12 19v2M3 12h2M19 12h2M6 6l1 1M17 17l1 1M6 18l1-1M17 7l1-1M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
  clean: "M4 12.500l5 5L20 6",
  failed: "M6 6l12 12M18 6L6 18",
  invalid: "M12 4v10M12 19v.500",
  running: "M7 4l12 8-12 8z",
  waiting: "M6 3h12M6 21h12M7 3c0 6 10 12 10 18M17 3C17 9 7 15 7 21",
  dormant: "M5 12h14",
  play: "M8 5l11 7-11 7z",
  pause: "M8 5v14M16 5v14",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  list: "M4 6h16M4 12h16M4 18h16",
  arrow: "M4 12h15M13 6l6 6-6 6",
  back: "M15 5l-7 7 7 7",
  next: "M9 5l7 7-7 7",
};
export const iconPath = (name) => ICONS[name] ?? ICONS.dormant;
export const icon = (name) =>
  s("svg", { viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": 2, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" }, s("path", { d: iconPath(name) }));

const SIGN = { committed: "clean", done: "clean", document: "documents" };
export const signOf = (tone) => SIGN[tone] ?? (tone in ICONS ? tone : "dormant");

/** A state is a sign, a word and a colour. */
export const state = (tone, word = tone) => h("span", { class: `state tone-${tone}` }, icon(signOf(tone)), word);
export const button = (text, onclick, kind = "", more = {}) => h("button", { class: `button ${kind}`, type: "button", onclick, ...more }, text);
export const empty = (sign, title, text, command) =>
  h("div", { class: "empty" }, icon(sign), h("h2", {}, title), h("p", { class: "quiet" }, text), command && shell(command));

/** The command line that does or shows the same, with a button that copies it. */
export const shell = (line) => h("div", { class: "cli" }, h("code", {}, line), h("button", { class: "copy", type: "button", "aria-label": `Copy: ${line}`, onclick: () => copy(line) }, "Copy"));

export const facts = (rows) =>
  h("dl", { class: "facts" }, rows.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
export const pre = (label, text) => h("pre", { class: "json", tabindex: "0", role: "region", "aria-label": label }, text);

let number = 0;
/** A card with a heading that names it. */
export function card(title, more, ...children) {
  const id = `card-${(number += 1)}`;
  return h("section", { class: "card", "aria-labelledby": id }, h("header", {}, h("h2", { id }, title), more), children);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("The browser does not allow copying on this page.", "failed");
  }
}

export function toast(text, tone = "done", command = "") {
  const shown = h("div", { class: `toast toast-${tone}` }, h("p", {}, text), command && h("code", {}, command));
  for (const old of document.querySelectorAll(".toast")) old.remove();
  document.body.append(shown);
  announce(text);
  setTimeout(() => shown.remove(), tone === "failed" ? 9000 : 5000);
}

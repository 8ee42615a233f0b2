// Lists and tables: rows that have not changed keep their elements, so focus and scrolling survive a delta.

import { button, h } from "./dom.js";

/** Make the children of `parent` be those of `rows`, reusing the elements of equal rows. */
export function patch(parent, rows, keyOf, make) {
  const before = (parent.made ??= new Map());
  const after = new Map();
  const focused = parent.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : undefined;
  const elements = rows.map((row, at) => {
    const key = String(keyOf(row, at));
    const text = JSON.stringify(row);
    const old = before.get(key);
    const entry = old?.text === text ? old : { text, element: make(row, at) };
    entry.element.dataset.key = key;
    after.set(key, entry);
    return entry.element;
  });
  parent.made = after;
  const same = elements.length === parent.children.length && elements.every((each, at) => parent.children[at] === each);
  if (same) return;
  parent.replaceChildren(...elements);
  if (focused !== undefined && !parent.contains(document.activeElement)) {
    const found = after.get(focused)?.element;
    (found?.matches("[tabindex],a,button") ? found : found?.querySelector("a,button"))?.focus({ preventScroll: true });
  }
}

/** The rows are made anew at the next `patch`: something beside them has changed. */
export const forget = (parent) => { parent.made = undefined; };

/** A table; a row opens its link. `columns`: [title, (row) => content, class]. */
export function table(label, columns) {
  const body = h("tbody", {});
  const element = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", { class: "grid" }, h("thead", {}, h("tr", {}, columns.map(([title, , kind]) => h("th", { class: kind, scope: "col" }, title)))), body));
  const show = (rows, keyOf, { link, chosen } = {}) => {
    if (body.chosen !== chosen) forget(body);
    body.chosen = chosen;
    patch(body, rows, keyOf, (row) => {
      const href = link?.(row);
      const isChosen = chosen !== undefined && String(keyOf(row)) === String(chosen);
      return h("tr", { class: `${href ? "opens" : ""} ${isChosen ? "chosen" : ""}`, onclick: (event) => href && !event.target.closest("a,button,input") && (location.hash = href) },
        columns.map(([, content, kind], at) => {
          const found = content(row);
          return h("td", { class: kind }, at === 0 && href ? h("a", { href, class: "title", "aria-current": isChosen ? "true" : null }, found) : found);
        }));
    });
  };
  return { element, show, columns };
}

/** Below a list: how much is shown, and the next page. `pages`: {shown, next, onnext, onfirst}. */
export function pager({ count, what, next, onnext, first, onfirst, note }) {
  return h("div", { class: "pager" }, h("span", { class: "faint" }, `${count.toLocaleString("en")} ${what}${next ? " on this page" : ""}${note ? `; ${note}` : ""}`),
    Boolean(first) && button("First page", onfirst, "plain"), Boolean(next) && button("Next page", onnext));
}

/** j and k, Home and End in whatever list is in main. */
export function step(by) {
  const links = [...document.querySelectorAll("main [data-key] a.title, main [data-key] button.title")].filter((each) => each.offsetParent);
  if (!links.length) return;
  const now = links.findIndex((each) => each.closest("[data-key]").contains(document.activeElement));
  const next = links[Math.min(Math.max(now < 0 ? (by > 0 ? 0 : links.length - 1) : now + by, 0), links.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

// Search: functions, documents and runs, as a list that keys walk through.

import { h, icon, replace } from "../lib/dom.js";
import { shortId } from "../lib/format.js";
import { go, to } from "../lib/route.js";

const WAIT_MS = 120;
const SIGN = { function: "functions", document: "documents", run: "workflows", workflow: "workflows", event: "events", piece: "pieces", resource: "resources" };
/** `documents/KEY`, `workflows/7` as a link. */
const link = (target) => { const [screen, ...what] = target.split("/"); return to(screen, what.join("/")); };

export function finder(app) {
  const field = h("input", { class: "field", type: "search", placeholder: "Function, document, workflow or number of a run", "aria-label": "Search", "aria-controls": "found", autocomplete: "off", spellcheck: "false" });
  const list = h("ul", { class: "found", id: "found" });
  const element = h("dialog", { "aria-label": "Find by name", class: "search" }, h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); list.querySelector("a")?.click(); } }, field, list, h("p", { class: "faint" }, "Enter opens the first; arrows choose another.")));
  let timer;
  let turn = 0;

  async function look() {
    const text = field.value.trim();
    const now = (turn += 1);
    if (!text) { replace(list, []); return; }
    const found = await app.ask({ type: "search", text }).then((page) => page.rows.map((each) => [SIGN[each.kind] ?? "search", each.title, each.note, link(each.target)]), (error) => [["failed", error.message, "", "#/overview"]]);
    if (now !== turn) return;
    replace(list, found.length ? found.map(([sign, name, note, href]) => h("li", {}, h("a", { href, onclick: (event) => { event.preventDefault(); element.close(); go(href); } }, icon(sign), h("span", { class: "code clip", title: name }, shortId(name)), h("span", { class: "faint" }, note)))) : h("li", { class: "quiet" }, "Nothing has this name."));
  }
  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, WAIT_MS); });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const all = [field, ...list.querySelectorAll("a")];
    all[Math.min(Math.max(all.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1), 0), all.length - 1)].focus();
  });
  document.body.append(element);
  return { open() { if (app.link.isOpen) { element.showModal(); field.select(); } } };
}

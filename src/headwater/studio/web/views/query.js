// Query: documents of a prefix or class that satisfy conditions, as a table or as lines of JSON; declared collections.

import { button, card, copy, empty, h, replace, shell, state } from "../lib/dom.js";
import { number, plural, shortId } from "../lib/format.js";
import { pager, table } from "../lib/list.js";
import { following, refusal, valueLine } from "../lib/parts.js";
import { changed, go, read, to } from "../lib/route.js";

export function open(app, first) {
  const field = (name, label, value, note) => { const input = h("input", { class: "field code", name, value, spellcheck: "false", autocomplete: "off", placeholder: note }); return [h("label", { class: "typed" }, h("span", {}, label), input), input]; };
  const { prefix = "", where = "", columns = "", sort = "", down } = first.query;
  const [prefixLabel, prefixInput] = field("prefix", "Class or prefix", prefix, "order:");
  const [whereLabel, whereInput] = field("where", "Where", where, 'amount >= 10 and customer contains "an"');
  const [columnsLabel, columnsInput] = field("columns", "Columns", columns, "customer, amount");
  const [sortLabel, sortInput] = field("sort", "Sort by", sort, "amount");
  const order = h("input", { type: "checkbox", checked: Boolean(down) });
  const result = h("div", { "aria-busy": "true" });
  const form = h("form", { class: "card body query", onsubmit: (event) => { event.preventDefault(); go(changed({ prefix: prefixInput.value.trim(), where: whereInput.value.trim(), columns: columnsInput.value.trim(), sort: sortInput.value.trim(), down: order.checked ? "1" : "", after: "", run: "1" })); ask(); } },
    prefixLabel, whereLabel, columnsLabel, sortLabel, h("label", { class: "check" }, order, "Largest first"), h("div", { class: "actions" }, h("button", { class: "button main", type: "submit" }, "Ask"), h("span", { class: "faint" }, "A condition is a path, one of = != < <= > >= in contains exists, and a JSON literal; `and` joins them.")));
  const collections = following(app, { type: "collections" }, (view) => (view.collections.length ? card("Collections", h("span", { class: "quiet num" }, number(view.collections.length)), h("ul", { class: "rows" }, view.collections.map((each) => h("li", {},
    h("div", { class: "actions" }, h("a", { class: "title code", href: to("query", "", { prefix: `${each.kind}:`, run: "1" }) }, each.kind), h("span", { class: "quiet" }, plural(each.documents, "document")), each.state && state(each.state === "ready" ? "clean" : "invalid", each.state)), h("p", { class: "faint code" }, each.type),
    each.indexes.length > 0 && h("p", { class: "faint" }, "Indexes: ", each.indexes.map((index) => `${index.name} (${index.fields.join(", ")})${index.unique ? " unique" : ""}${index.state && index.state !== "ready" ? `, ${index.state}` : ""}`).join("; ")), each.rights.map((right) => h("p", { class: "faint" }, right)))))) : []), { failed: () => [] });

  let turn = 0;
  async function ask() {
    const { query } = read();
    const now = (turn += 1);
    result.setAttribute("aria-busy", String(Boolean(query.run)));
    if (!query.run) { replace(result, h("div", { class: "card" }, empty("query", "Ask for documents", "Choose a class or a prefix, and conditions if not all of them are wanted.", "headwater ls -l PREFIX"))); result.removeAttribute("aria-busy"); return; }
    const names = (query.columns ?? "").split(",").map((each) => each.trim()).filter(Boolean);
    try {
      const view = await app.ask({ type: "query", prefix: query.prefix ?? "", where: query.where ?? "", columns: names, sort: query.sort ?? "", descending: Boolean(query.down), after: Number(query.after) || 0, ...(app.at ? { at: app.at } : {}) });
      if (now === turn) draw(view, query);
    } catch (error) {
      if (now === turn) replace(result, h("div", { class: "card", role: "alert" }, refusal(error)));
    }
    if (now === turn) result.removeAttribute("aria-busy");
  }
  function draw(view, query) {
    const lines = table("Documents that were found", [["Document", (row) => h("span", { title: row.address }, shortId(row.address))], ...view.columns.map((name, at) => [name, (row) => valueLine(row.cells[at], 60), "code"]), ["Commit", (row) => number(row.seq), "wide num"]]);
    lines.show(view.rows, (row) => row.address, { link: (row) => to("documents", row.address) });
    const jsonLines = () => view.rows.map((row) => `{${[`"address":${JSON.stringify(row.address)}`, ...view.columns.map((name, at) => `${JSON.stringify(name)}:${row.cells[at]?.text || "null"}`)].join(",")}}`).join("\n");
    replace(result, card(`${number(view.found)}${view.complete ? "" : " or more"} found`, h("span", { class: "quiet" }, `${plural(view.scanned, "document")} read in ${Math.round(view.took_ms)} ms${view.complete ? "" : "; the bound was reached, so ask for less"}`),
      h("div", { class: "body actions" }, button(query.json ? "As a table" : "As JSON lines", () => { go(changed({ json: query.json ? "" : "1" })); ask(); }), button("Copy JSON lines", () => copy(jsonLines()))),
      view.rows.length ? query.json ? h("pre", { class: "json", tabindex: "0", role: "region", "aria-label": "JSON lines" }, jsonLines()) : lines.element : empty("query", "No document satisfies this", "Leave out a condition, or choose another prefix."),
      pager({ count: view.rows.length, what: "rows", next: view.next, onnext: () => { go(changed({ after: view.next })); ask(); }, first: query.after, onfirst: () => { go(changed({ after: "" })); ask(); } }), view.command && h("div", { class: "body" }, shell(view.command))));
  }
  ask();
  return { element: h("div", { class: "page" }, h("div", { class: "head" }, h("h1", {}, "Query")), form, result, collections.element), changed: () => { ask(); return true; }, close: collections.close };
}

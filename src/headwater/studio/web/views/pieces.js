// Pieces: each start of a pattern, with its key, its inputs, and whether it is at work.

import { empty, h, replace, shell, state } from "../lib/dom.js";
import { number, preview, shortId } from "../lib/format.js";
import { paged, tabs, whole } from "../lib/parts.js";
import { to } from "../lib/route.js";

export function open(app, { what, query }) {
  const bar = h("div", {});
  const { pattern = "", after } = query;
  const list = paged(app, { type: "pieces", ...(pattern ? { pattern } : {}), after: Number(after) || 0 }, {
    label: "Pieces", key: (row) => row.piece, what: "pieces", total: (view) => view.total, link: (row) => to("documents", row.piece),
    rows: (view) => { const names = Object.entries(view.patterns); replace(bar, names.length > 1 && tabs("pattern", [["", "All"], ...names.map(([name, count]) => [name, name, count])])); return what ? view.pieces.filter((row) => `${row.pattern} ${row.key}` === what || row.piece === what) : view.pieces; },
    columns: [["Piece", (row) => h("span", { class: "code", title: row.piece }, `${row.pattern} ${shortId(row.key)}`)], ["State", (row) => state(row.at_work ? "running" : row.status === "running" ? "invalid" : "dormant", row.at_work ? "at work" : row.status)], ["Inputs", (row) => h("span", { class: "code" }, preview(row.inputs, 60)), "wide"], ["Generation", (row) => number(row.generation), "wide num"], ["Built by", (row) => row.by && h("a", { class: "code", href: to("graph", "", { q: row.by }) }, shortId(row.by)), "wide"],
      ["", (row) => h("a", { class: "button", href: to("graph", "", { q: `${row.pattern}`, view: "list" }) }, "Functions")]],
    none: empty("pieces", "No piece has been started", "A pattern is a function that builds a graph; each start of it is a piece. `@app.pattern` declares one.", "headwater pieces ls"),
  });
  return whole("Pieces", undefined, [bar, { element: h("section", { class: "card", "aria-label": "Pieces" }, list.element), close: list.close }, shell("headwater pieces ls")]);
}

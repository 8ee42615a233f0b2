// Resources: what was asked of the outside, how old it is, and what went wrong.

import { deedButton, perform } from "../lib/acting.js";
import { empty, h, state } from "../lib/dom.js";
import { number, shortId } from "../lib/format.js";
import { paged, valueLine, whole } from "../lib/parts.js";
import { to } from "../lib/route.js";

const TONE = { fresh: "clean", ready: "clean", stale: "invalid", loading: "running", fetching: "running", failed: "failed", error: "failed" };

export function open(app, { query }) {
  const list = paged(app, { type: "resources", after: Number(query.after) || 0 }, {
    label: "Resources", key: (row) => row.node, rows: (view) => view.resources, what: "resources", total: (view) => view.total, link: (row) => to("graph", row.node),
    columns: [["Resource", (row) => h("span", { class: "code", title: row.name }, shortId(row.name))], ["State", (row) => state(row.error ? "failed" : TONE[row.state] ?? "dormant", row.state)], ["Why", (row) => h("span", { title: row.error || row.why }, shortId(row.error || row.why)), "wide"], ["Value", (row) => valueLine(row.value, 50), "wide code"], ["Requests", (row) => number(row.requests), "wide num"],
      ["", (row) => deedButton(app, "Fetch now", "refetch", () => perform(app, { type: "refetch", resource: row.node }))]],
    none: empty("resources", "No resource has been asked for", "A resource is a document that is filled by requests to the outside: `@app.resource` declares one, and reading it asks.", "headwater graph"),
  });
  return whole("Resources", undefined, [{ element: h("section", { class: "card", "aria-label": "Resources" }, list.element), close: list.close }]);
}

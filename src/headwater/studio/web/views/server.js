// The server: who is connected, who has logged in, tokens, the audit log and the metrics.

import { button, card, empty, facts, h, replace, shell, state } from "../lib/dom.js";
import { deedButton, perform, typed } from "../lib/acting.js";
import { bytes, clock, number, shortId } from "../lib/format.js";
import { table } from "../lib/list.js";
import { following, paged, refusal, tabs } from "../lib/parts.js";
import { changed, go, to } from "../lib/route.js";

const FRESH_MS = 2000; // clients and tokens come and go without a commit

export function open(app, { query }) {
  if (app.welcome.place && app.welcome.place !== "server") {
    return { element: h("div", { class: "page" }, h("div", { class: "head" }, h("h1", {}, "Server")), h("div", { class: "card" }, empty("server", "This is a file, not a server", "At a server this screen shows its clients, tokens, the audit log and the metrics.", "headwater serve --store FOLDER --studio"))), close() {} };
  }
  const { tab = "" } = query;
  const bar = h("div", { class: "actions" }, tabs("tab", [["", "Clients"], ["tokens", "Tokens"], ["audit", "Audit log"], ["metrics", "Metrics"]]), h("div", { class: "push" }), deedButton(app, "Download backup", "backup", () => perform(app, { type: "backup" })));
  const body = tab === "audit" ? audit(app, query) : parts(app, tab);
  return { element: h("div", { class: "page" }, h("div", { class: "head" }, h("h1", {}, "Server")), bar, body.element), close: body.close };
}

function parts(app, tab) {
  const then = (done) => done.then(() => made.again());
  const end = (row, what) => deedButton(app, "End", "session", () => then(perform(app, { type: "session", id: row.id }, { title: `End this ${what}` })), "risky");
  const grid = (label, columns, rows, none) => { const lines = table(label, columns); lines.show(rows, (row) => row.id ?? row.name); return rows.length ? lines.element : h("p", { class: "body quiet" }, none); };
  const made = following(app, { type: "server" }, (view) => {
    const note = view.hidden && h("p", { class: "quiet" }, view.hidden);
    if (tab === "metrics") return card("Metrics", h("span", { class: "quiet" }, `${view.url} · ${view.version}`), h("div", { class: "body" }, note, facts(Object.entries(view.metrics).map(([name, value]) => [name, h("span", { class: "num" }, number(value))]))));
    if (tab === "tokens") return [note, card("Tokens and keys", [h("span", { class: "quiet num" }, number(view.tokens.length)), h("span", { class: "more" }, deedButton(app, "Create a token", "token", () => then(create(app)), "main"))], grid("Tokens", [
      ["Id", (row) => h("code", {}, shortId(row.id))], ["Actor", (row) => row.actor || h("span", { class: "faint" }, "none")], ["Rights", (row) => [row.rights, row.roles.length > 0 && h("span", { class: "faint" }, ` ${row.roles.join(", ")}`)]], ["Spaces", (row) => row.spaces], ["Expires", (row) => (row.expires_ms ? clock(row.expires_ms) : "never"), "wide num"], ["State", (row) => state(row.state === "live" ? "clean" : "dormant", row.state)], ["Connections", (row) => number(row.connections), "wide num"], ["Note", (row) => row.note, "wide"],
      ["", (row) => deedButton(app, "Revoke", "token", () => then(perform(app, { type: "token", act: "revoke", id: row.id })), "risky")]], view.tokens, "There is no token that you may see. `headwater token create` makes one."))];
    return [note, card("Spaces", h("span", { class: "quiet num" }, number(view.spaces.length)), grid("Spaces", [["Space", (row) => h("a", { href: to("overview", "", { space: row.name, branch: "", at: "" }) }, row.name)], ["State", (row) => state(row.trouble ? "failed" : row.is_open ? "clean" : "dormant", row.trouble || (row.is_open ? "open" : "not open"))], ["Clients", (row) => number(row.clients), "num"], ["Watches", (row) => number(row.watches), "wide num"], ["Commit", (row) => (row.seq ? number(row.seq) : ""), "num"]], view.spaces, "There is no space yet.")),
      card("Clients", h("span", { class: "quiet num" }, number(view.clients.length)), grid("Clients", [["Actor", (row) => row.actor || h("span", { class: "faint" }, "none")], ["Space", (row) => row.space], ["App", (row) => row.app, "wide code"], ["Since", (row) => clock(row.since_ms), "wide num"], ["Rights", (row) => row.rights, "wide"], ["Watches", (row) => number(row.watches), "wide num"], ["Behind", (row) => (row.lag ? bytes(row.lag) : ""), "wide num"], ["Pending", (row) => (row.pending ? number(row.pending) : ""), "wide num"], ["From", (row) => row.peer, "wide code"], ["", (row) => end(row, "connection")]], view.clients, "No program is connected now.")),
      card("People in the Studio", h("span", { class: "quiet num" }, number(view.sessions.length)), grid("People in the Studio", [["Actor", (row) => row.actor || h("span", { class: "faint" }, "none")], ["Rights", (row) => row.rights], ["Since", (row) => clock(row.since_ms), "num"], ["Until", (row) => clock(row.until_ms), "wide num"], ["From", (row) => row.peer, "wide code"], ["", (row) => end(row, "login")]], view.sessions, "No user has logged in."))];
  }, { every: FRESH_MS, attributes: { class: "stack" }, failed: (error) => h("div", { class: "card" }, refusal(error)) });
  return made;
}

const create = (app) => typed(app, "Create a token", [{ name: "actor", label: "Actor", note: "The name that its writes carry; empty: none." }, { name: "rights", label: "Rights", options: ["read", "write", "own"], value: "read" }, { name: "every", label: "For every space of the server", type: "checkbox" }, { name: "roles", label: "Roles, separated by commas" }, { name: "expires", label: "Expires in", value: "30d", note: "As 12h or 30d; empty: never." }, { name: "note", label: "Note" }],
  ({ roles, ...rest }) => ({ type: "token", act: "create", ...rest, roles: roles.split(",").map((each) => each.trim()).filter(Boolean) }), { verb: "Create" });

function audit(app, query) {
  const verdict = h("span", {});
  const find = h("input", { class: "field", type: "search", placeholder: "Find in the audit log", "aria-label": "Find in the audit log", value: query.q ?? "" });
  const list = paged(app, { type: "audit", ...(query.q ? { search: query.q } : {}), before: Number(query.before) || 0 }, {
    label: "Audit log, newest first", key: (row) => row.number, after: "before", what: "lines", rows: (view) => { replace(verdict, state(view.verified ? "clean" : "failed", view.verified ? "chain verified" : "chain broken"), h("span", { class: "quiet" }, ` ${view.sentence}`)); return view.lines; },
    columns: [["Line", (row) => number(row.number), "num"], ["Time", (row) => clock(row.at_ms), "num"], ["Actor", (row) => row.actor], ["Act", (row) => h("code", {}, row.act)], ["What", (row) => h("span", { title: row.sentence }, shortId(row.sentence)), "wide"]],
    none: empty("server", "No line is there", "Logins, grants and refusals are written to the audit log.", "headwater token audit"),
  });
  return { element: h("section", { class: "card", "aria-label": "Audit log" }, h("form", { class: "body actions", onsubmit: (event) => { event.preventDefault(); go(changed({ q: find.value, before: "" })); } }, find, button("Find", () => go(changed({ q: find.value, before: "" }))), verdict), list.element, shell("headwater token audit")), close: list.close };
}

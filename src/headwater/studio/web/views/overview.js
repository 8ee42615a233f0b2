// What a person wants to know first: what waits for me, is it healthy, what is it doing.

import { card, empty, h, replace, s, state } from "../lib/dom.js";
import { clock, number, plural, shortId, took } from "../lib/format.js";
import { patch } from "../lib/list.js";
import { following, refusal } from "../lib/parts.js";
import { go, to } from "../lib/route.js";

const KIND = {
  approval: ["waiting", "Approval", "Decide"], reconcile: ["waiting", "Reconciliation", "Decide"], blocked: ["waiting", "Blocked workflow", "Look"],
  event: ["failed", "Failed event", "Look"], function: ["failed", "Failing function", "Why"], aside: ["invalid", "Set aside", "Look"],
};
const ORDER = ["failed", "running", "waiting", "invalid", "clean", "never-ran", "dormant"];
const COUNTER = { commits: "Commits", runs: "Runs of functions", events: "Events handled", failures: "Failures" };
export const FLOW_TONE = { "Needs attention": "waiting", Running: "running", Idle: "clean", Waiting: "invalid", Paused: "dormant", Stopped: "dormant" };

export function open(app) {
  const waits = h("ul", { class: "rows wait" });
  const tally = h("span", { class: "tally tone-waiting num" });
  const note = h("p", {});
  const title = h("h1", {});
  const kpis = h("div", { class: "kpis" });
  const left = h("div", { class: "stack" });
  const right = h("div", { class: "stack" });
  const nothing = empty("clean", "Nothing waits for a person", "Approvals, calls of unknown outcome, failed events and failing functions would be listed here.");
  const waiting = card("Waits for you", tally, waits, nothing);
  const spaces = (app.welcome.spaces ?? []).length > 1 ? spaceList(app) : undefined;
  const body = h("div", { class: "page", "aria-busy": "true" }, h("div", { class: "head" }, title, note), spaces?.element, waiting, kpis, h("div", { class: "two" }, left, right));

  const close = app.onOverview((view, error) => {
    body.removeAttribute("aria-busy");
    if (!view) { replace(waits, h("li", {}, refusal(error))); nothing.hidden = true; return; }
    title.textContent = view.space;
    note.textContent = [openings(view), plural(view.documents, "document")].filter(Boolean).join(" ");
    tally.textContent = number(view.waits_count);
    tally.hidden = !view.waits_count;
    nothing.hidden = view.waits_count > 0;
    patch(waits, view.waits, (row) => `${row.kind} ${row.target} ${row.title}`, wait);
    replace(kpis, view.counters.map(kpi));
    replace(left, health(view), busiest(view));
    replace(right, flows(view), recent(view));
  });
  return { element: body, close() { close(); spaces?.close(); } };
}

function openings(view) {
  const live = view.openings.filter((each) => each.origin === "live");
  if (live.length) return `${live.map((each) => each.headline).join("; ")}.`;
  return view.openings.length ? `${view.openings[0].headline}.` : "No program has it open.";
}

function wait(row) {
  const [tone, word, act] = KIND[row.kind] ?? ["waiting", row.kind, "Look"];
  const href = row.screen === "workflows" && !/^\d+$/.test(row.target) ? to("workflows", "", { workflow: row.target }) : to(row.screen, row.target);
  return h("li", {}, state(tone, word), h("div", { class: "clip" }, h("a", { class: "title", href }, shortId(row.title)), row.count > 1 && h("span", { class: "faint num" }, ` × ${number(row.count)}`)),
    h("div", { class: "actions" }, h("a", { class: `button ${tone === "waiting" ? "main" : ""}`, href }, act, h("span", { class: "unseen" }, ` ${row.title}`))),
    h("p", { class: "quiet said" }, shortId(row.sentence), row.at_ms > 0 && h("span", { class: "faint" }, ` · ${clock(row.at_ms)}`)));
}

const kpi = ({ name, total, per_second: rate, series }) =>
  h("div", { class: "card kpi" }, h("h2", { class: "small" }, COUNTER[name] ?? name), h("div", { class: "big num" }, number(total)), h("p", { class: "faint num" }, rate ? `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} a second` : "none now"), series.length > 1 && curve(series));

/** A line of the last minutes: decoration beside the number, so it is hidden from readers. */
function curve(values) {
  const most = Math.max(...values, 1e-9);
  const points = values.map((value, at) => `${((at / Math.max(values.length - 1, 1)) * 200).toFixed(1)},${(32 - (value / most) * 28).toFixed(1)}`).join(" ");
  return s("svg", { viewBox: "0 0 200 34", preserveAspectRatio: "none", "aria-hidden": "true", class: "curve" }, [s("polygon", { points: `0,34 ${points} 200,34` }), s("polyline", { points, "vector-effect": "non-scaling-stroke" })]);
}

function health(view) {
  const tones = ORDER.filter((tone) => view.tones[tone]);
  const total = tones.reduce((sum, tone) => sum + view.tones[tone], 0);
  return card("Functions", [h("span", { class: "quiet num" }, plural(total, "node")), h("a", { class: "more", href: to("graph") }, "Open graph")],
    total ? h("div", { class: "body stack" },
      h("div", { class: "meter", "aria-hidden": "true" }, tones.map((tone) => h("i", { class: `tone-${tone}`, vars: { "flex-grow": view.tones[tone] } }))),
      h("div", { class: "legend" }, tones.map((tone) => h("a", { href: to("graph", "", { tone }) }, state(tone, `${number(view.tones[tone])} ${tone}`)))))
      : empty("functions", "No function is known", "Functions of the program that opens this space would be counted here.", "headwater dev MODULE:APP"));
}

function busiest(view) {
  if (!view.busiest.length) return undefined;
  const most = Math.max(...view.busiest.map((each) => each.total_ms), 1e-9);
  return card("Busiest functions", h("span", { class: "more quiet" }, "total time"),
    h("ul", { class: "rows busy" }, view.busiest.map((each) => h("li", {},
      h("a", { class: "clip code title", href: to("graph", each.node) }, shortId(each.name)), h("span", { class: "quiet num" }, plural(each.runs, "run")), h("span", { class: "num" }, took(each.total_ms)),
      h("div", { class: "track", "aria-hidden": "true" }, h("i", { vars: { width: `${(100 * each.total_ms) / most}%` } }))))));
}

function flows(view) {
  return card("Workflows", h("a", { class: "more", href: to("workflows") }, "All runs"),
    view.workflows.length ? h("ul", { class: "rows" }, view.workflows.map((each) => h("li", {},
      h("div", { class: "actions" }, h("a", { class: "title", href: to("workflows", "", { workflow: each.name }) }, each.name), state(FLOW_TONE[each.state] ?? "dormant", each.state)), h("p", { class: "quiet" }, shortId(each.sentence)))))
      : empty("workflows", "No workflow is declared in this space", "`hw.App.workflow` declares one; its state and what it waits for would be here.", "headwater workflow ls"));
}

function recent(view) {
  if (!view.recent.length) return undefined;
  return card("Recently done", undefined, h("ul", { class: "rows" }, view.recent.map((each) => h("li", {}, h("span", { class: "clip" }, shortId(each.text.replace("->", "→"))), h("span", { class: "faint" }, `${each.workflow} · ${clock(each.at)}`)))));
}

const LIVE = { live: ["clean", "live"], server: ["clean", "live"], closed: ["dormant", "closed"] };
function spaceList(app) {
  const chosen = app.place().space ?? app.welcome.spaces[0];
  return following(app, { type: "spaces" }, (view) => card("Spaces", h("span", { class: "quiet num" }, number(app.welcome.spaces.length)),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Spaces" }, h("table", { class: "grid" }, h("thead", {}, h("tr", {}, ["Space", "State", "Commit", "Documents", "Waits", ""].map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, view.spaces.map((each) => h("tr", { class: `opens ${each.name === chosen ? "chosen" : ""}`, "data-key": each.name, onclick: () => go(to("overview", "", { space: each.name, branch: "", at: "" })) },
        h("td", {}, h("a", { class: "title", href: to("overview", "", { space: each.name, branch: "", at: "" }) }, each.name)), h("td", {}, state(...(LIVE[each.live] ?? ["dormant", each.live]))), h("td", { class: "num" }, number(each.seq)), h("td", { class: "num" }, number(each.documents)), h("td", { class: "num" }, each.waits ? number(each.waits) : ""), h("td", { class: "quiet" }, each.sentence))))))));
}

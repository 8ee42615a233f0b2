// Workflows, their runs on a time line, and one run: what it does, where it stands, and what a person can decide.

import { actionButton, deedButton, perform, typed } from "../lib/acting.js";
import { card, empty, facts, h, icon, pre, replace, shell, state } from "../lib/dom.js";
import { clock, plural, shortId, took } from "../lib/format.js";
import { crumb, following, paged, refusal, tabs, valueBlock, whole } from "../lib/parts.js";
import { to } from "../lib/route.js";
import { FLOW_TONE } from "./overview.js";

const IDLE = 0.1; // an idle time longer than this share of the span is cut

export const toneOfRun = (run) => (run.waits_for ? "waiting" : run.status.startsWith("failed") ? "failed" : run.status === "committed" ? "clean" : run.status === "active" ? "running" : "dormant");
const arrowed = (text) => shortId(text.replace("->", "→"));

export const open = (app, { what, query }) => (what ? one(app, Number(what)) : all(app, query));

function all(app, query) {
  const { workflow = "", tab = "", status = "", before, every } = query;
  const keep = { workflow };
  const cards = following(app, { type: "workflows", ...(workflow ? { workflow } : {}), ...(every ? { every: true } : {}) }, (view) => (view.workflows.length ? h("div", { class: "flows" }, view.workflows.map((each) => flowCard(app, each, workflow))) : h("div", { class: "card" }, empty("workflows", "No workflow is declared in this space", "`hw.App.workflow` declares one; its runs, and what they wait for, would be here.", "headwater workflow ls"))));
  const head = h("div", { class: "actions" }, workflow && crumb(to("workflows", "", { tab }), "All workflows"), tabs("tab", [["", "Runs"], ["waiting", "Waits for a person"], ["inputs", "Inputs"]], keep));
  const list = tab === "inputs" ? inputs(app, { workflow, before }) : runs(app, { workflow, status, before, every, waiting: tab === "waiting" });
  return whole("Workflows", undefined, [cards, head, list]);
}

function flowCard(app, { flow, hosted, actions }, chosen) {
  return h("section", { class: "card flow", "aria-label": flow.name },
    h("div", { class: "actions" }, h("h2", {}, h("a", { class: "title", href: to("workflows", "", { workflow: flow.name }) }, flow.name)), state(FLOW_TONE[flow.state] ?? "dormant", flow.state)),
    h("p", { class: "quiet" }, shortId(flow.sentence)),
    h("p", { class: "faint" }, [flow.schedule && `Runs ${flow.schedule}`, `version ${flow.version}`, plural(flow.runs, "run"), !hosted && "no program carries out its runs"].filter(Boolean).join(" · ")),
    chosen && flow.handlers.length > 0 && h("ul", { class: "faint" }, flow.handlers.map((each) => h("li", {}, h("code", {}, each.name), ` ${each.when}${each.next_at ? `, next ${clock(each.next_at)}` : ""}`))),
    Object.keys(flow.pending).length > 0 && h("p", { class: "faint" }, "Waiting events: ", Object.entries(flow.pending).map(([topic, count]) => `${topic} ${count}`).join(", ")),
    h("div", { class: "actions" }, actions.map((each) => actionButton(app, each)), deedButton(app, "Publish", "publish", () => typed(app, `Publish to ${flow.name}`, [{ name: "topic", label: "Topic", value: Object.keys(flow.pending)[0] ?? "", required: true }, { name: "text", label: "Value as JSON", value: "{}", lines: 5 }, { name: "id", label: "Id at its source", note: "Published twice with the same id, it is one event." }], ({ topic, text, id }) => ({ type: "publish", workflow: flow.name, topic, text, id })))));
}

function runs(app, { workflow, status, before, every, waiting }) {
  const scale = { text: "", place: () => [0, 100] };
  const list = paged(app, { type: "runs", ...(workflow ? { workflow } : {}), ...(status ? { status } : {}), ...(waiting ? { waiting: true } : {}), ...(every ? { every: true } : {}), before: Number(before) || 0 }, {
    label: "Runs, newest first", key: (run) => run.id, before: "before", after: "before", what: "runs", link: (run) => to("workflows", String(run.id)),
    rows: (view) => { scale.place = timeScale(view.runs); return view.runs; },
    columns: [["Run", (run) => h("span", { title: run.text }, arrowed(run.title || run.text || `run ${run.id}`), h("span", { class: "faint num" }, ` #${run.id}`))], ["Workflow", (run) => `${run.workflow}.${run.handler}`, "wide code"], ["Began", (run) => h("span", { class: "num" }, clock(run.created_at)), "wide"],
      ["Time line", (run) => lane(run, scale.place), "wide line"], ["Took", (run) => took(run.updated_at - run.created_at), "wide num"], ["State", (run) => state(toneOfRun(run), run.waits_for ? "waits for a person" : run.status)]],
    none: h("div", { class: "card" }, empty("workflows", waiting ? "No run waits for a person" : "There is no run yet", waiting ? "Approvals and calls of unknown outcome would be here." : "A run begins when an event comes in, or by a schedule.", "headwater runs ls")),
  });
  return { element: h("section", { class: "card", "aria-label": "Runs" }, list.element), close: list.close };
}

/** Places on the time line in percent; long idle times are cut. */
function timeScale(all) {
  const spans = all.map((run) => [run.created_at, Math.max(run.updated_at, run.created_at + 1)]).sort((a, b) => a[0] - b[0]);
  if (!spans.length) return () => [0, 100];
  const most = (Math.max(...spans.map((each) => each[1])) - spans[0][0]) * IDLE;
  const cuts = [];
  let end = spans[0][1];
  for (const [from, to_] of spans) { if (from - end > most) cuts.push([end, from - end - most]); end = Math.max(end, to_); }
  const at = (time) => time - spans[0][0] - cuts.reduce((sum, [from, length]) => sum + (time > from ? Math.min(length, time - from) : 0), 0);
  const total = Math.max(at(end), 1);
  return (run) => [(100 * at(run.created_at)) / total, (100 * (at(Math.max(run.updated_at, run.created_at)) - at(run.created_at))) / total];
}
function lane(run, place) {
  const [left, width] = place(run);
  return h("div", { class: `lane tone-${toneOfRun(run)}`, "aria-hidden": "true" }, h("i", { vars: { left: `${Math.min(left, 97)}%`, width: `${Math.min(Math.max(width, 3), 100 - Math.min(left, 97))}%` } }));
}

function inputs(app, { workflow, before }) {
  const list = paged(app, { type: "inputs", ...(workflow ? { workflow } : {}), before: Number(before) || 0 }, {
    label: "Inputs, newest first", key: (row) => row.input.id, after: "before", what: "inputs", rows: (view) => view.inputs,
    columns: [["Input", ({ input }) => h("span", { title: input.external }, shortId(input.title || input.external), h("span", { class: "faint num" }, ` #${input.id}`))], ["Workflow", ({ input }) => input.workflow, "wide code"], ["Came in", ({ input }) => clock(input.created_at), "wide num"], ["State", ({ input }) => state({ done: "clean", parked: "waiting", skipped: "dormant" }[input.status] ?? "invalid", input.stale ? `${input.status}, for long` : input.status)],
      ["Done because of it", ({ input }) => arrowed(input.outputs.join("; ")), "wide"], ["", ({ actions }) => h("div", { class: "actions" }, actions.map((each) => actionButton(app, each)))]],
    none: h("div", { class: "card" }, empty("workflows", "Nothing has come in yet", "What comes in through a topic would be here, with what was done because of it.", "headwater inputs ls")),
  });
  return { element: h("section", { class: "card", "aria-label": "Inputs" }, list.element), close: list.close };
}

// --- one run ------------------------------------------------------------------------------------------------

const LABELS = { applied: [["text", "Result of the call as JSON", "null"]], reject: [["reason", "Reason"]], cancel: [["reason", "Reason"]], abandon: [["reason", "Reason"]] };

function one(app, id) {
  const element = h("div", { class: "page", "aria-busy": "true" });
  let turn = 0;
  const close = app.watch({ type: "run", number: id }, async (view) => {
    const now = (turn += 1);
    const intents = await Promise.all(view.actions.map((each) => app.ask({ type: "intent", deed: app.inSpace(each.deed) }).catch((error) => ({ sentence: error.message, command: "" }))));
    if (now !== turn) return;
    element.removeAttribute("aria-busy");
    replace(element, draw(app, view, intents));
  }, (error) => { element.removeAttribute("aria-busy"); replace(element, crumb(to("workflows"), "All runs"), h("div", { class: "card" }, refusal(error))); });
  return { element, close };
}

function draw(app, view, intents) {
  const { run } = view;
  return [
    crumb(to("workflows", "", { workflow: run.workflow }), "All runs"),
    h("div", { class: "head" }, h("h1", {}, shortId(run.title || `Run ${run.id}`)), state(toneOfRun(run), run.waits_for ? "waits for you" : run.state || run.status), h("p", {}, `run ${run.id} of ${run.workflow}, attempt ${run.attempt}`)),
    h("ol", { class: "phases card body", "aria-label": "Phases" }, view.phases.map((each) => h("li", { class: each.state, "aria-current": each.state === "current" ? "step" : null }, h("i", {}), each.name, h("span", { class: "unseen" }, ` ${each.state}`)))),
    view.actions.length > 0 ? decision(app, view, intents) : h("p", { class: "quiet" }, shortId(run.sentence)),
    h("div", { class: "two" },
      h("div", { class: "stack" },
        card("Input to output", undefined, h("div", { class: "body flowing" },
          h("div", { class: "pill" }, h("h3", {}, "Came in"), view.events.map((each) => h("p", {}, h("code", {}, `${each.topic}/${shortId(String(each.id))}`), h("span", { class: "faint" }, ` ${each.disposition || each.status}`))), !view.events.length && h("p", { class: "quiet" }, view.inputs.length ? view.inputs.map(shortId).join(", ") : "nothing: it was started by a schedule or by hand")),
          h("span", { class: "arrow quiet" }, icon("arrow")), h("div", { class: "pill" }, h("h3", {}, run.outcome === "applied" || run.status === "committed" ? "Did" : "Will do"), h("p", {}, arrowed(run.title || run.text))))),
        view.plan && card("Plan", undefined, h("div", { class: "body" }, valueBlock("Plan as JSON", view.plan))),
        view.result && card("Result", undefined, h("div", { class: "body" }, valueBlock("Result as JSON", view.result))),
        view.calls.length > 0 && card("Calls", undefined, h("ul", { class: "rows" }, view.calls.map(call)))),
      h("div", { class: "stack" },
        card("Facts", undefined, h("div", { class: "body stack" }, facts([["State", run.state], ["Because", run.because], ["Reached", run.reached], ["Outcome", run.outcome], ["Began", clock(run.created_at)], ["Last step", clock(run.updated_at)], ["Goes on", run.retry_at && clock(run.retry_at)], ["Version", run.version], ["Carried out", view.hosted ? "by a program that has it open" : "by no program now"]]),
          run.error && pre("Error", run.error), view.details && pre("Traceback", view.details), shell(`headwater runs show ${run.id}`))),
        view.chain.length > 1 && card("Attempts", undefined, h("ul", { class: "rows" }, view.chain.map((each) => h("li", {}, h("div", { class: "actions" }, h("a", { class: "title", href: to("workflows", String(each.id)), "aria-current": each.id === run.id ? "true" : null }, `Run ${each.id}`), state(toneOfRun(each), each.status)), h("p", { class: "faint" }, `${clock(each.created_at)} · ${shortId(each.sentence)}`))))),
        view.decisions.length > 0 && card("Decisions", undefined, h("ul", { class: "rows" }, view.decisions.map((each) => h("li", {}, each.sentence, h("span", { class: "faint" }, `${clock(each.at)}${each.reason ? ` · ${each.reason}` : ""}`))))))),
  ];
}

const call = (each) => h("li", {}, h("div", { class: "actions" }, h("code", {}, each.operation), h("span", { class: "faint" }, each.status)), h("p", { class: "quiet" }, shortId(each.sentence)), facts([["Idempotency key", h("code", {}, each.key)], ["Tries", each.tries], ["Next try", each.next_at && clock(each.next_at)], ["Error", each.error], ["Said by", each.resolved_by]]), each.params && h("details", { "data-name": `call ${each.run}` }, h("summary", {}, "Arguments"), valueBlock("Arguments", each.params)));

function decision(app, view, intents) {
  const { run } = view;
  const isAsked = run.waits_for !== null;
  return h("section", { class: `card ${isAsked ? "ask" : ""}`, "aria-labelledby": "ask" },
    h("header", {}, icon(isAsked ? "waiting" : "play"), h("h2", { id: "ask" }, !isAsked ? "What can be done" : run.status === "paused:approval" ? "Approve this?" : run.outcome === "unknown" ? "What became of this call?" : "This waits for you")),
    h("div", { class: "body stack" }, h("p", {}, shortId(run.sentence), view.call && isAsked && [" Its idempotency key outside is ", h("code", {}, view.call.key), "."]),
      view.actions.map((each, at) => h("div", { class: "choice" },
        actionButton(app, each, { said: true, kind: at === 0 ? "main" : "", onclick: (_app, deed) => decide(app, each.label, deed) }),
        h("div", {}, h("p", { class: "quiet" }, shortId(intents[at].sentence)), intents[at].command && shell(intents[at].command))))));
}

async function decide(app, label, deed) {
  const fields = LABELS[deed.act];
  if (!fields) { await perform(app, deed, { said: true }); return; }
  await typed(app, label, fields.map(([name, text, value]) => ({ name, label: text, value, lines: name === "text" ? 4 : 0 })), (values) => ({ ...deed, ...values }), { verb: label });
}

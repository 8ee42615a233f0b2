// Events that failed, wait, or go to other spaces, grouped by handler and reason; one of them; sending to a handler.

import { deedButton, perform, typed } from "../lib/acting.js";
import { card, empty, facts, h, pre, replace, shell, state } from "../lib/dom.js";
import { clock, number, preview, pretty, shortId } from "../lib/format.js";
import { crumb, following, paged, refusal, tabs, whole } from "../lib/parts.js";
import { go, to } from "../lib/route.js";

const TONE = { failed: "failed", waiting: "invalid", outgoing: "invalid" };
const NONE = {
  "": ["No event has failed", "An event whose handler raised an error, or whose commit was rejected, would be here with its payload and the reason."],
  waiting: ["No event waits", "Events that wait for their handler, or for a program that has it, would be here."],
  outgoing: ["Nothing goes to another space", "Events and posts for other spaces that wait or were rejected there would be here."],
};

export const open = (app, { what, query }) => (what ? one(app, what) : all(app, query));

function all(app, { tab = "", handler = "", reason = "", after = "" }) {
  const name = tab || "failed";
  const bar = h("div", { class: "actions" });
  const groups = h("div", {});
  const list = paged(app, { type: "events", state: name, ...(handler ? { handler } : {}), ...(reason ? { reason } : {}), ...(after ? { after } : {}) }, {
    label: `Events: ${name}`, key: (row) => row.event, rows: (view) => { drawTop(view); return view.events; }, what: "events", total: (view) => view.total, link: (row) => to("events", row.event, { tab, handler, reason }),
    columns: [["Event", (row) => h("span", { title: row.event }, shortId(row.stream || row.handler), h("span", { class: "faint code" }, ` ${shortId(row.event)}`))], ["Payload", (row) => h("span", { class: "code" }, preview(row.payload, 70)), "wide"], ["Reason", (row) => shortId(row.reason)], ["Tries", (row) => (row.attempts ? number(row.attempts) : ""), "wide num"], ["Time", (row) => clock(row.at_ms), "wide num"]],
    none: h("div", { class: "card" }, empty("events", ...NONE[tab], "headwater events ls")),
  });
  function drawTop(view) {
    replace(bar, tabs("tab", [["", "Failed", view.counts.failed ?? 0], ["waiting", "Waiting", view.counts.waiting ?? 0], ["outgoing", "To other spaces", view.counts.outgoing ?? 0]]), h("div", { class: "push" }), deedButton(app, "Send an event", "send", () => send(app)));
    replace(groups, (handler || reason) && crumb(to("events", "", { tab }), "All groups"), !handler && view.groups.some((each) => each.count > 1) && card("By handler and reason", undefined, h("ul", { class: "rows groups" }, view.groups.map((each) => h("li", {}, h("span", { class: "tally num tone-failed" }, number(each.count)), h("a", { class: "title", href: to("events", "", { tab, handler: each.handler, reason: each.reason }) }, h("span", { class: "code" }, each.handler), " ", shortId(each.reason)), h("span", { class: "faint num" }, clock(each.newest_ms)))))));
  }
  const rows = { element: h("section", { class: "card", "aria-label": "Events" }, list.element), close: list.close };
  return whole("Events", undefined, [bar, groups, rows]);
}

async function send(app, chosen) {
  let view;
  try { view = await app.ask({ type: "handlers" }); } catch (error) { view = { handlers: [], trouble: error.message }; }
  const first = view.handlers.find((each) => each.name === chosen) ?? view.handlers[0];
  const sample = (handler) => `{${(handler?.parameters ?? []).map((each) => `\n  ${JSON.stringify(each.name)}: ${each.default ?? "null"}`).join(",")}${handler?.parameters.length ? "\n" : ""}}`;
  const typesOf = (handler) => (handler?.parameters.length ? `${handler.name}(${handler.parameters.map((each) => `${each.name}${each.type ? `: ${each.type}` : ""}`).join(", ")})` : "");
  const notes = view.handlers.map(typesOf).filter(Boolean).slice(0, 12).join(" · ");
  const report = await typed(app, "Send an event", [view.handlers.length ? { name: "handler", label: "Handler", options: view.handlers.map((each) => each.name), value: first?.name, onchange: (inputs) => { inputs.fields.value = sample(view.handlers.find((each) => each.name === inputs.handler.value)); } } : { name: "handler", label: "Handler", required: true, note: view.trouble }, { name: "fields", label: "Payload as JSON", lines: 7, value: sample(first), note: notes }, { name: "id", label: "Id of the sender, if any", note: "Sent again with the same id, it is handled once." }], ({ handler, fields, id }) => ({ type: "send", handler, fields, ...(id ? { id } : {}) }), { verb: "Send" });
  if (report?.opens) go(`#/${report.opens}`);
}

function one(app, id) {
  return whole("Events", undefined, [crumb(to("events"), "All events"), following(app, { type: "event", event: id }, (view) => {
    const { event } = view;
    const off = (may) => (may ? {} : { disabled: true, title: view.why_not });
    const act = (label, type, may, onclick, kind) => { const made = deedButton(app, label, type, onclick, kind); for (const [name, value] of Object.entries(off(may))) made.setAttribute(name, value === true ? "" : value); return made; };
    const tone = event.state === "failed" || event.reason ? "failed" : TONE[event.state] ?? "dormant";
    return card(shortId(event.stream || event.handler || event.event), state(tone, event.state), h("div", { class: "body stack" },
      event.reason && h("p", {}, shortId(event.reason)),
      facts([["Event", h("code", {}, event.event)], ["Handler", event.handler && h("a", { class: "code", href: to("graph", "", { q: event.handler.split(".").pop() }) }, event.handler)], ["App", event.app], ["Time", clock(event.at_ms)], ["Tries", event.attempts > 0 && number(event.attempts)], ["To", event.to]]),
      event.payload !== undefined && event.payload !== null && h("div", {}, h("h3", {}, "Payload"), pre("Payload", pretty(event.payload))),
      event.result && h("div", {}, h("h3", {}, "Result"), pre("Result", pretty(event.result))),
      event.facts && h("div", {}, h("h3", {}, "Facts of the rejection"), pre("Facts", pretty(event.facts))),
      event.traceback && h("div", {}, h("h3", {}, "Traceback"), pre("Traceback", event.traceback)),
      h("div", { class: "actions" },
        act("Deliver again", "event", view.may_redeliver, async () => { if (await perform(app, { type: "event", act: "redeliver", event: event.event })) go(to("events")); }, "main"),
        act("Send again with changes", "resend", view.may_redeliver, () => typed(app, "Send again with changes", [{ name: "fields", label: "Payload as JSON", lines: 9, value: pretty(event.payload ?? "{}") }], ({ fields }) => ({ type: "resend", event: event.event, fields }), { note: "The failed event stays until it is dropped.", verb: "Send" })),
        act("Drop", "event", view.may_drop, async () => { if (await perform(app, { type: "event", act: "drop", event: event.event })) go(to("events")); }, "risky")),
      view.why_not && h("p", { class: "faint" }, view.why_not), shell(`headwater events show ${event.event.slice(0, 14)}`)));
  }, { failed: (error) => h("div", { class: "card" }, refusal(error)) })]);
}

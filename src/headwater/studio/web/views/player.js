// Follow a change: recorded passes, step by step, from the write through the functions it woke.

import { perform } from "../lib/acting.js";
import { button, h, icon, replace, state } from "../lib/dom.js";
import { clock, number, plural, shortId, took } from "../lib/format.js";
import { sentence } from "../lib/parts.js";
import { changed, go, read } from "../lib/route.js";

const TONE = { write: "document", invalidated: "invalid", started: "running", finished: "clean", failed: "failed", gated: "waiting", rejected: "failed", event: "running" };
const STEP_MS = 700;

export function player(app, { light }) {
  const element = h("div", { class: "player" });
  let page;
  let refused = "";
  let pass;
  let endPass = () => {};
  let wanted;
  let timer;
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const endList = app.watch({ type: "passes" }, (record) => { page = record; draw(); }, (error) => { page = undefined; refused = error.message; draw(); });
  const stop = () => { clearInterval(timer); timer = undefined; };
  const show = (step) => go(changed({ step: Math.min(Math.max(step, 0), pass.steps.length - 1) }), { replace: true });
  const at = () => Math.min(Number(read().query.step) || 0, (pass?.steps.length ?? 1) - 1);

  function play() {
    if (timer) { stop(); draw(); return; }
    if (at() >= pass.steps.length - 1) show(0);
    timer = setInterval(() => { if (!pass || at() >= pass.steps.length - 1) { stop(); draw(); } else show(at() + 1); }, STEP_MS);
    draw();
  }

  function record() {
    const on = page?.recording;
    return button([icon(on ? "pause" : "play"), on ? "End recording" : "Record"], () => perform(app, { type: "record", on: !on }, { said: true }), "", { "aria-pressed": String(Boolean(on)), disabled: Boolean(app.refusal("record")), title: app.refusal("record") || "While it records, functions of the program take about a fifth longer. It ends by itself after ten minutes." });
  }

  function draw() {
    if (!page) { replace(element, h("p", { class: "faint" }, app.at ? "States of functions are of now: they are not kept with the past." : refused || "No program has it open, so no pass can be recorded.")); return; }
    const open = read().query.pass;
    if (!open || !pass) {
      const last = page.passes[0];
      replace(element, record(), h("p", { class: "quiet clip" }, last ? shortId(last.sentence) : page.recording ? `Recording${page.until_ms ? ` until ${clock(page.until_ms)}` : ""}: the next change can be followed.` : "Record, and a change can be followed from the write to the last function it woke."),
        h("div", { class: "push" }), page.passes.length > 0 && chooser(""), last && button("Follow it", () => go(changed({ pass: last.number, step: 0 })), "main"));
      return;
    }
    const now = pass.steps[at()];
    replace(element, record(), chooser(open),
      h("div", { class: "actions steps" }, button(icon("back"), () => { stop(); show(at() - 1); }, "", { "aria-label": "Step before", disabled: at() === 0 }), !still.matches && button(icon(timer ? "pause" : "play"), play, "", { "aria-label": timer ? "Pause" : "Play" }), button(icon("next"), () => { stop(); show(at() + 1); }, "", { "aria-label": "Next step", disabled: at() >= pass.steps.length - 1 })),
      h("input", { type: "range", min: 0, max: pass.steps.length - 1, value: at(), "aria-label": "Step", oninput: (event) => { stop(); show(Number(event.target.value)); } }),
      h("p", { class: "said", "aria-live": "polite" }, now && [state(TONE[now.kind] ?? "dormant", now.kind), " ", sentence(now.sentence), now.took_ms > 0 && h("span", { class: "faint num" }, ` ${took(now.took_ms)}`)]),
      h("span", { class: "faint num" }, `${at() + 1} of ${number(pass.steps.length)}${pass.left_out ? `, ${number(pass.left_out)} left out` : ""}`),
      button("Close", () => { stop(); go(changed({ pass: "", step: "" })); }, "plain"));
  }
  const chooser = (open) => h("select", { class: "field pick", "aria-label": "Recorded pass", onchange: (event) => { stop(); go(changed({ pass: event.target.value, step: 0 })); } },
    !open && h("option", { value: "" }, `${plural(page.passes.length, "recorded pass", "recorded passes")}`), page.passes.map((each) => h("option", { value: each.number, selected: String(each.number) === open }, `${clock(each.at_ms)} · ${plural(each.runs, "run")} · ${took(each.took_ms)} · ${shortId(each.causes[0] ?? "")}`)));

  return {
    element,
    /** The nodes up to this step, and the edges by which the change came to them. */
    lit() {
      if (!pass || !read().query.pass) return undefined;
      const nodes = new Set();
      const edges = [];
      const steps = pass.steps.slice(0, at() + 1);
      const wrote = new Map(); // function -> box: its result has its name
      for (const step of steps) {
        const id = step.box || step.node;
        if (id) nodes.add(id);
        for (const cause of step.causes) {
          const address = cause.split("/")[0];
          nodes.add(address);
          edges.push([address, id], [wrote.get(address.split(":")[0].split(".").pop()), id]);
        }
        if (step.kind === "finished") wrote.set(step.name.split("(")[0], id);
      }
      const last = steps.at(-1);
      return { nodes, edges, at: last && (last.box || last.node || last.causes[0]) };
    },
    update(query) {
      if (wanted === query.pass) { draw(); light(); return; }
      wanted = query.pass;
      endPass();
      endPass = () => {};
      pass = undefined;
      if (!wanted) { stop(); draw(); light(); return; }
      endPass = app.watch({ type: "pass", number: Number(wanted) }, (record) => { pass = record; draw(); light(); });
    },
    close() { stop(); endList(); endPass(); },
  };
}

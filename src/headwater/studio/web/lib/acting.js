// Deeds: what is about to happen in one sentence of the server, then the deed, then what it did, with the command that does the same.

import { button, copy, h, pre, shell, toast } from "./dom.js";
import { Trouble } from "./link.js";

const CONFLICT = "HW211";

/** Open a dialog; resolves with its `returnValue` when it is closed. */
export function dialog(title, body, actions, { focus } = {}) {
  const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), body, h("div", { class: "actions end" }, actions));
  const element = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  document.body.append(element);
  element.showModal();
  (focus ?? form.querySelector("[data-first]"))?.focus();
  return new Promise((resolve) => element.addEventListener("close", () => { element.remove(); resolve(element.returnValue); }));
}
const choice = (text, value, kind = "", more = {}) => h("button", { class: `button ${kind}`, value, ...more }, text);
const DANGER = new Set(["reject", "drop", "skip", "cancel", "abandon", "delete", "revoke", "archive"]);
export const isRisky = (deed) => DANGER.has(deed.act) || deed.type === "delete";

/**
 * Say what will happen, do it, say what it did. Returns the report; undefined if it was not done.
 * `said`: the sentence is on the page already, so a deed that need not ask acts at the first click.
 */
export async function perform(app, deed, { said = false, title } = {}) {
  const whole = app.inSpace(deed);
  let intent;
  try {
    intent = await app.link.ask({ type: "intent", ...app.place(), deed: whole });
  } catch (error) {
    toast(error.message, "failed");
    return undefined;
  }
  if (!intent.allowed) {
    toast(intent.why_not, "failed");
    return undefined;
  }
  if (intent.asks || !said) {
    const risky = intent.asks;
    const answer = await dialog(title ?? intent.button, [h("p", {}, intent.sentence), intent.command && shell(intent.command)], [
      choice("Cancel", "", "", risky ? { "data-first": true } : {}),
      choice(intent.button, "yes", risky && isRisky(deed) ? "risky" : "main", risky ? {} : { "data-first": true }),
    ]);
    if (answer !== "yes") return undefined;
  }
  return carryOut(app, whole, intent);
}

async function carryOut(app, deed, intent) {
  let report;
  try {
    report = await app.link.act(deed);
  } catch (error) {
    await refused(error, intent);
    return undefined;
  }
  toast(report.sentence, "done", report.command);
  if (report.secret) await dialog("Copy it now", [h("p", {}, "It is shown this once, and cannot be shown again."), pre("Secret", report.secret)], [button("Copy", () => copy(report.secret)), choice("Close", "", "main", { "data-first": true })]);
  if (report.download) h("a", { href: report.download.startsWith("/") ? report.download : `/studio/${report.download}`, download: "" }).click();
  return report;
}

async function refused(error, intent) {
  if (!(error instanceof Trouble)) throw error;
  const title = error.code === CONFLICT ? "It has changed since you looked" : "Nothing was done";
  await dialog(title, [h("p", {}, error.message), error.path && h("p", {}, "The place is ", h("code", {}, error.path), "."), h("p", { class: "faint" }, `${error.code ? `${error.code}: \`headwater explain ${error.code}\`. ` : ""}${intent.command}`)], [choice("Close", "", "main", { "data-first": true })]);
}

/**
 * A dialog with fields, then `make(values)` is performed. `fields`: [{name, label, value, lines, note, options, required}].
 * It stays open while the server refuses what was typed.
 */
export function typed(app, title, fields, make, { note, verb = "Go on" } = {}) {
  const inputs = Object.fromEntries(fields.map((each) => [each.name, input(each)]));
  for (const each of fields) if (each.onchange) inputs[each.name].addEventListener("change", () => each.onchange(inputs));
  const wrong = h("p", { class: "wrong", role: "alert" });
  const form = h("form", {}, h("h2", { id: "typed-title" }, title), note && h("p", { class: "quiet" }, note),
    fields.map((each) => h("label", { class: "typed" }, h("span", {}, each.label), inputs[each.name], each.note && h("span", { class: "faint" }, each.note))),
    wrong, h("div", { class: "actions end" }, button("Cancel", () => element.close()), h("button", { class: "button main", type: "submit" }, verb)));
  const element = h("dialog", { "aria-labelledby": "typed-title" }, form);
  document.body.append(element);
  element.addEventListener("close", () => element.remove());
  element.showModal();
  form.querySelector("input,textarea,select")?.focus();
  return new Promise((resolve) => {
    element.addEventListener("close", () => resolve(undefined));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const deed = app.inSpace(make(Object.fromEntries(Object.entries(inputs).map(([name, each]) => [name, each.type === "checkbox" ? each.checked : each.value]))));
      try {
        const intent = await app.link.ask({ type: "intent", ...app.place(), deed });
        if (!intent.allowed) throw new Trouble({ message: intent.why_not });
        const answer = await dialog(title, [h("p", {}, intent.sentence), intent.command && shell(intent.command)], [choice("Back", ""), choice(intent.button, "yes", "main", { "data-first": true })]);
        if (answer !== "yes") return;
        const report = await app.link.act(deed);
        resolve(report);
        element.close();
        toast(report.sentence, "done", report.command);
        if (report.secret) await dialog("Copy it now", [h("p", {}, "It is shown this once, and cannot be shown again."), pre("Secret", report.secret)], [button("Copy", () => copy(report.secret)), choice("Close", "", "main", { "data-first": true })]);
      } catch (error) {
        if (!(error instanceof Trouble)) throw error;
        wrong.textContent = error.path ? `${error.message} (at ${error.path})` : error.message;
      }
    });
  });
}

function input({ value = "", lines, options, required, type = "text", name }) {
  if (options) return h("select", { class: "field", name }, options.map((each) => h("option", { value: each, selected: each === value }, each)));
  if (lines) return Object.assign(h("textarea", { class: "field code", rows: lines, spellcheck: "false", name }), { value });
  if (type === "checkbox") return h("input", { type, name, checked: Boolean(value) });
  return h("input", { class: "field code", type, name, value, required, spellcheck: "false", autocomplete: "off" });
}

/** The button of an `Action` of the server: disabled with the reason, if it cannot be done now. */
export function actionButton(app, { label, deed, enabled, why_not: why }, more = {}) {
  const off = !enabled || app.refusal(deed.type);
  return button(label, () => (more.onclick ?? perform)(app, deed, { said: more.said }), isRisky(deed) ? "risky" : more.kind, { disabled: Boolean(off), title: enabled ? app.refusal(deed.type) : why });
}
/** A button of the page for a kind of deed. */
export const deedButton = (app, label, type, onclick, kind = "") => button(label, onclick, kind, { disabled: Boolean(app.refusal(type)), title: app.refusal(type) || null });

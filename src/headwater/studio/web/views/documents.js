// Documents by class or prefix, one of them with typed fields, its history with differences, branches, and the space at an earlier commit.

import { deedButton, dialog, perform, typed } from "../lib/acting.js";
import { button, card, copy, empty, h, isVisible, replace, shell, state } from "../lib/dom.js";
import { clock, number, preview, shortId, typeOf } from "../lib/format.js";
import { Exact, isLink, linkTarget, parse, write } from "../lib/literal.js";
import { pager, table } from "../lib/list.js";
import { chips, following, refusal, valueBlock, valueLine } from "../lib/parts.js";
import { changed, go, read, to } from "../lib/route.js";

const COLUMNS = 4;
const LINES = 12; // of a difference, before "all"
const here = (what, query = {}) => { const { kind, deleted, every, after } = read().query; return to("documents", what, { kind, deleted, every, after, ...query }); };
const past = (app) => (app.at ? { at: app.at } : {});

export function open(app, first) {
  const tree = h("nav", { class: "tree", "aria-busy": "true", "aria-label": "Classes" });
  const list = h("section", { class: "docs", "aria-busy": "true", "aria-label": "Documents" });
  const detail = h("section", { class: "detail", "aria-label": "Document", tabindex: "0" });
  const time = timeline(app);
  const page = h("div", { class: "browse" }, h("h1", { class: "unseen" }, "Documents"), tree, list, detail, time.element);
  let kinds;
  let endList = () => {};
  let endDetail = () => {};
  let askedList;
  let askedDetail;
  let rows;
  const endKinds = app.watch({ type: "kinds", ...past(app) }, (view) => { kinds = view; drawTree(); update(read()); }, (error) => { for (const each of [tree, list]) each.removeAttribute("aria-busy"); replace(tree, refusal(error)); });

  /** The kind that is chosen, or that the document belongs to, or the first. */
  function kindOf({ what, query }) {
    if (query.kind !== undefined) return query.kind;
    const found = kinds?.kinds.filter((each) => what && what.startsWith(each.prefix)).sort((a, b) => b.prefix.length - a.prefix.length)[0];
    return (found ?? (what ? undefined : kinds?.kinds[0]))?.prefix ?? "";
  }

  function drawTree() {
    tree.removeAttribute("aria-busy");
    const now = read();
    const chosen = kindOf(now);
    replace(tree, h("h2", { class: "heading small" }, "Classes and prefixes"), kinds.kinds.map((each) => h("a", { href: to("documents", "", { kind: each.prefix, every: now.query.every, deleted: now.query.deleted }), "aria-current": each.prefix === chosen ? "true" : null, title: each.prefix }, h("span", { class: `clip ${each.is_class ? "" : "quiet"}` }, shortId(each.label)), h("span", { class: "count num" }, `${number(each.count)}${each.exact ? "" : "+"}`))),
      h("div", { class: "options" }, option("every", `With documents of events${kinds.hidden ? ` (${number(kinds.hidden)})` : ""}`), option("deleted", "With deleted ones")));
  }
  const option = (name, label) => h("label", {}, h("input", { type: "checkbox", checked: Boolean(read().query[name]), onchange: (event) => go(here(read().what, { [name]: event.target.checked ? "1" : "", after: "" })) }), label);

  function loadList(now) {
    const prefix = kindOf(now);
    const question = { type: "documents", prefix, ...past(app), ...(now.query.every ? { every: true } : {}), ...(now.query.deleted ? { deleted: true } : {}), ...(now.query.after ? { after: now.query.after } : {}) };
    if (askedList === JSON.stringify(question)) { rows?.mark(); return; }
    askedList = JSON.stringify(question);
    endList();
    rows = undefined;
    let shownColumns;
    let lines;
    let last;
    const foot = h("div", {});
    const mark = () => last && lines.show(last.documents, (row) => row.address, { link: (row) => here(row.address, { kind: now.query.kind ?? prefix }), chosen: read().what });
    endList = app.watch(question, (found) => {
      list.removeAttribute("aria-busy");
      last = found;
      const fields = found.columns.filter((field) => found.documents.filter((row) => has(row, field)).length * 2 > found.documents.length).slice(0, COLUMNS);
      const columns = JSON.stringify(fields);
      if (columns !== shownColumns) {
        shownColumns = columns;
        lines = table("Documents", documentColumns(fields));
        replace(list, lines.element, foot);
      }
      if (!found.documents.length && !question.after) { replace(list, none(prefix)); shownColumns = undefined; return; }
      mark();
      replace(foot, pager({ count: found.documents.length, what: "documents", note: found.hidden ? `${number(found.hidden)} of events are left out` : "", next: found.next, onnext: () => go(here(read().what, { after: found.next })), first: question.after, onfirst: () => go(here(read().what, { after: "" })) }));
    }, (error) => { shownColumns = undefined; replace(list, refusal(error)); });
    rows = { mark };
  }
  const none = (prefix) => empty("documents", prefix ? `No document begins with "${prefix}"` : "This space holds no document yet", "A program writes them, or this command does.", "headwater set NAME '{}' --create");

  function loadDetail(now) {
    const key = JSON.stringify([now.what, app.at, app.place()]);
    if (askedDetail === key) return;
    askedDetail = key;
    endDetail();
    if (!now.what) { replace(detail, overview(app)); endDetail = () => {}; page.classList.remove("chosen"); return; }
    page.classList.add("chosen");
    const one = document_(app, now.what);
    replace(detail, one.element);
    detail.scrollTop = 0;
    endDetail = one.close;
  }

  function update(now) {
    if (kinds) { drawTree(); loadList(now); }
    loadDetail(now);
    return true;
  }
  loadDetail(first);
  return { element: page, flush: true, changed: update, close() { endKinds(); endList(); endDetail(); time.close(); } };
}

function fieldsOf(row) {
  try {
    const value = row.value && !row.value.cut ? parse(row.value.text) : undefined;
    return value instanceof Map && !isLink(value) ? value : undefined;
  } catch { return undefined; }
}
const has = (row, field) => Boolean(fieldsOf(row)?.has(field));

function documentColumns(fields) {
  const cell = (row, field) => {
    const value = fieldsOf(row);
    return value ? (value.has(field) ? preview(write(value.get(field)), 60) : "") : field === fields[0] ? valueLine(row.value, 60) : "";
  };
  return [
    ["Document", (row) => h("span", { title: row.address }, shortId(row.title || row.address), row.deleted && h("span", { class: "faint" }, " deleted"))],
    ...(fields.length ? fields.map((field) => [field, (row) => cell(row, field)]) : [["Value", (row) => valueLine(row.value, 80)]]),
    ["Commit", (row) => number(row.seq), "num"],
  ];
}

// --- one document -------------------------------------------------------------------------------------------

function document_(app, address) {
  const element = h("div", { class: "stack tight" });
  const head = h("div", { class: "stack tight" });
  const body = h("div", { class: "stack tight", "aria-busy": "true" });
  const notice = h("div", { class: "notice", hidden: true, role: "status" });
  const story = historyOf(app, address);
  let shown;
  let form;
  const reload = (view) => {
    notice.hidden = true;
    form = editor(app, view, () => load(true));
    replace(body, form.element);
  };
  let end = () => {};
  function load(whole = false) {
    end();
    end = app.watch({ type: "document", address, ...(whole ? { whole } : {}), ...past(app) }, (view) => {
      body.removeAttribute("aria-busy");
      const isFirst = !shown;
      const moved = shown && (shown.seq !== view.seq || shown.value?.text !== view.value?.text);
      shown = view;
      replace(head, headOf(app, view));
      if (!isFirst && moved && form?.isTouched()) {
        notice.hidden = false;
        replace(notice, h("span", {}, `Commit ${view.seq} has written it while you were typing.`), button("Show the new value", () => reload(view)));
      } else if (isFirst || moved || whole) reload(view);
    }, (error) => { shown = undefined; body.removeAttribute("aria-busy"); replace(body, refusal(error)); });
  }
  load();
  element.append(head, notice, body, story.element);
  return { element, close() { end(); story.close(); } };
}

function headOf(app, view) {
  const isPast = app.at;
  return [
    h("div", { class: "head" }, h("h2", { class: "code", title: view.address }, shortId(view.title && view.title !== view.address ? view.title : view.address)), view.exists ? isPast ? state("invalid", `at commit ${app.at}`) : state("clean", "current") : state("dormant", "not there"), view.seq > 0 && h("span", { class: "faint" }, `written by commit ${number(view.seq)}${view.at_ms ? `, ${clock(view.at_ms)}` : ""}`)),
    h("p", { class: "faint code wrap" }, view.address, view.type && ` · ${view.type}`),
    view.writer && h("p", { class: "quiet" }, "Written by ", h("a", { class: "code", href: to("graph", view.writer) }, shortId(view.writer_name || view.writer)), "."),
    h("div", {}, h("h3", {}, "Read by"), chips(view.readers, "no function")),
  ];
}

function editor(app, view, loadWhole) {
  const touched = new Map(); // field -> text
  const wrong = h("p", { class: "wrong", role: "alert" });
  if (!view.exists) return { element: empty("documents", "It is not there", app.at ? "At this commit the document did not exist, or was deleted." : "It was deleted, or never written.", `headwater history '${view.address}'`), isTouched: () => false };
  const value = view.value;
  const mayEdit = view.may_edit && !app.refusal("set") && value && !value.hidden;
  const why = app.refusal("set") || view.why_not;
  const force = view.writer && app.welcome.rights === "own";
  const rows = view.fields.length && !value?.cut ? view.fields : [];
  let json;

  function field(each) {
    const text = each.value?.text ?? "null";
    let literal;
    try { literal = each.value?.cut || each.value?.hidden ? undefined : parse(text); } catch { literal = undefined; }
    const note = h("span", { class: "type" }, each.type || (literal === undefined ? "" : typeOf(literal)));
    if (each.link || isLink(literal)) { const target = each.link || linkTarget(literal); return [h("span", { class: "code clip", title: each.name }, each.name), h("a", { class: "chip", href: to("documents", target) }, `→ ${shortId(target)}`), note]; }
    const change = (typedText) => { wrong.textContent = ""; if (typedText === text) touched.delete(each.name); else touched.set(each.name, typedText); save.disabled = touched.size === 0; };
    const label = { "aria-label": `${each.name || "value"}, ${note.textContent}` };
    if (literal === undefined || (literal !== null && typeof literal === "object" && !(literal instanceof Exact))) return [h("span", { class: "code clip", title: each.name }, each.name), h("span", { class: "code clip quiet" }, valueLine(each.value, 60)), note];
    if (typeof literal === "boolean") return [h("span", { class: "code clip" }, each.name), h("input", { type: "checkbox", checked: literal, disabled: !mayEdit, ...label, onchange: (event) => change(String(event.target.checked)) }), note];
    const isText = typeof literal === "string" && isVisible(literal.replaceAll("\n", ""));
    const box = isText && literal.includes("\n") ? Object.assign(h("textarea", { class: "field code", rows: 4 }), { value: literal }) : h("input", { class: "field code", value: isText ? literal : escaped(text), inputmode: literal instanceof Exact ? "decimal" : null });
    for (const [name, each] of Object.entries({ spellcheck: "false", autocomplete: "off", ...label })) box.setAttribute(name, each);
    box.readOnly = !mayEdit;
    box.addEventListener("input", () => { box.removeAttribute("aria-invalid"); change(isText ? JSON.stringify(box.value) : box.value.trim()); });
    return [h("span", { class: "code clip", title: each.name }, each.name), box, note];
  }

  async function commit(address, text, forced) {
    try { parse(text); } catch (error) { wrong.textContent = `This is no JSON: ${error.message}. Nothing was sent.`; return; }
    const report = await perform(app, { type: "set", address, text, unless_after: view.seq, ...(forced ? { force: true } : {}) }, { title: "Write this value" });
    if (report) { touched.clear(); save.disabled = true; }
  }
  function submit(event) {
    event.preventDefault();
    if (json) { commit(view.address, json.value, force); return; }
    if (touched.size === 1 && view.value) { const [[name, text]] = touched; commit(rows.length === 1 && rows[0].name === "" ? view.address : `${view.address}/${step(name)}`, text, force); return; }
    try {
      const all = parse(value.text);
      for (const [name, text] of touched) all.set(name, parse(text));
      commit(view.address, write(all), force);
    } catch (error) { wrong.textContent = `This is no JSON: ${error.message}. Nothing was sent.`; }
  }
  const save = h("button", { class: "button main", type: "submit", disabled: !(touched.size), title: mayEdit ? null : why }, force ? "Save by force" : "Save");
  const fieldsArea = h("div", { class: "fields" });
  const asJson = button("Edit as JSON", () => {
    if (json) { json = undefined; drawFields(); return; }
    json = Object.assign(h("textarea", { class: "field code", rows: 14, spellcheck: "false", "aria-label": "Value as JSON" }), { value: escaped(pretty(value.text)) });
    json.addEventListener("input", () => { save.disabled = false; wrong.textContent = ""; touched.set("", json.value); });
    replace(fieldsArea, json);
    asJson.textContent = "Edit fields";
    json.focus();
  }, "", { hidden: !mayEdit || value?.cut });
  const single = !rows.length && value && !value.cut && !value.hidden && isScalar(value.text) ? [{ name: "", type: view.type, value, link: "" }] : rows;
  function drawFields() {
    asJson.textContent = "Edit as JSON";
    touched.clear();
    save.disabled = true;
    replace(fieldsArea, single.length ? single.map((each) => { const [name, box, note] = field(each); if (each.name === "") replace(name, "value"); return h(box.matches("input,textarea") ? "label" : "div", { class: "field-row" }, name, box, note); }) : valueBlock("Value", value, value?.cut ? loadWhole : undefined));
  }
  function step(name) { return name === "" ? "~" : name.replaceAll("~", "~0").replaceAll("/", "~1"); }
  const submitOne = (event) => { if (!json && single.length === 1 && single[0].name === "") { event.preventDefault(); commit(view.address, touched.get("") ?? value.text, force); } else submit(event); };
  drawFields();
  const element = h("form", { class: "edit", onsubmit: submitOne }, fieldsArea, wrong,
    h("div", { class: "actions" }, app.at ? [h("span", { class: "quiet" }, "An earlier commit cannot be changed."), deedButton(app, "Put this value back", "restore", () => perform(app, { type: "restore", address: view.address, at: app.at }))]
      : [mayEdit || view.writer ? save : undefined, asJson, deedButton(app, "Delete", "delete", () => perform(app, { type: "delete", address: view.address, unless_after: view.seq }), "risky")],
    deedButton(app, "Fork here", "fork", () => fork(app), "plain"), button("Copy as JSON", () => copy(value?.text ?? ""), "plain")),
    !mayEdit && why && !app.at && h("p", { class: "faint" }, why), shell(`headwater get '${view.address}'${app.at ? ` --at ${app.at}` : ""}`));
  return { element, isTouched: () => touched.size > 0 };
}
/** JSON whose invisible characters are written as escapes: the same value. */
const escaped = (text) => [...text].map((each) => (each === "\n" || isVisible(each) ? each : `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`)).join("");
const isScalar = (text) => { try { const value = parse(text); return value === null || typeof value !== "object" || value instanceof Exact || isLink(value); } catch { return false; } };
const pretty = (text) => { try { return write(parse(text), "  "); } catch { return text; } };

// --- history and differences --------------------------------------------------------------------------------

function historyOf(app, address) {
  const head = h("h3", {}, "History");
  const list = h("ol", { class: "past" });
  const foot = h("div", {});
  let end = () => {};
  function load(before) {
    end();
    end = app.watch({ type: "history", address, limit: 20, ...(before ? { before } : {}) }, (found) => {
      replace(list, found.changes.map((each, at) => change(each, found.changes[at + 1])));
      if (!found.changes.length) replace(list, h("li", { class: "quiet" }, "No commit has written it."));
      replace(foot, pager({ count: found.changes.length, what: found.changes.length === 1 ? "change" : "changes", next: found.next, onnext: () => load(found.next), first: before, onfirst: () => load(0) }));
    }, (error) => replace(list, h("li", { class: "quiet" }, error.message)));
  }
  function change(each, earlier) {
    const shown = h("div", { class: "diff" });
    const details = h("details", { "data-name": String(each.seq), ontoggle: async () => {
      if (!details.open || shown.childElementCount) return;
      try { replace(shown, differences(await app.ask({ type: "difference", address, older: earlier?.seq ?? each.seq - 1, newer: each.seq }))); } catch (error) { replace(shown, h("p", { class: "quiet" }, error.message)); }
    } }, h("summary", {}, h("span", { class: "num" }, `commit ${number(each.seq)}`), h("span", { class: "quiet" }, shortId(each.change))), shown,
    h("div", { class: "actions" }, h("span", { class: "faint" }, `${clock(each.at_ms)}${each.session ? ` · ${shortId(each.session)}` : ""}`), button("Go there", () => go(here(address, { at: each.seq })), "plain"), deedButton(app, "Put this value back", "restore", () => perform(app, { type: "restore", address, at: each.seq }), "plain")));
    return h("li", {}, details);
  }
  load(0);
  return { element: h("div", { class: "history" }, head, list, foot), close: () => end() };
}

export function differences(view) {
  if (!view.lines.length && !view.cut) return h("p", { class: "quiet" }, "Nothing differs.");
  const one = (each) => h("div", {}, h("span", { class: "quiet" }, `${each.path || "value"} `), each.older && h("del", {}, valueLine(each.older, 90)), " ", each.newer && h("ins", {}, valueLine(each.newer, 90)), !each.newer && h("span", { class: "faint" }, " removed"));
  const rest = view.lines.slice(LINES);
  const more = rest.length > 0 && button(`${number(rest.length)} more`, () => more.replaceWith(...rest.map(one)), "plain");
  return [view.lines.slice(0, LINES).map(one), more, view.cut && h("p", { class: "faint" }, "There may be more differences: they are looked for in a bounded time.")];
}

// --- time and branches --------------------------------------------------------------------------------------

function timeline(app) {
  const slider = h("input", { type: "range", min: 1, max: 1, value: 1, "aria-label": "Commit" });
  const place = h("span", { class: "num quiet place" });
  const element = h("div", { class: "time" }, h("span", { class: "quiet" }, "Time"), slider, place, h("button", { class: "button", type: "button", onclick: () => go(changed({ at: "" })) }, "Now"));
  let head = 1;
  let commits = [];
  const draw = () => {
    slider.max = String(head);
    if (slider !== document.activeElement || !app.at) slider.value = String(app.at ?? head);
    const found = commits.find((each) => each.seq === app.at);
    place.textContent = app.at ? `commit ${app.at} of ${head}${found ? `, ${clock(found.at_ms)}` : ""}, read only` : `commit ${head}, now`;
    element.classList.toggle("past-mode", Boolean(app.at));
  };
  slider.addEventListener("input", () => { place.textContent = `commit ${slider.value} of ${head}`; });
  slider.addEventListener("change", () => go(changed({ at: Number(slider.value) >= head ? "" : slider.value }), { replace: true }));
  const close = app.watch({ type: "commits" }, (view) => { head = view.head; commits = view.commits; slider.min = String(Math.max(view.oldest, 1)); draw(); }, () => { element.hidden = true; });
  draw();
  return { element, close };
}

async function fork(app) {
  const report = await typed(app, "A new branch", [{ name: "name", label: "Name of the branch", required: true }], ({ name }) => ({ type: "fork", name, ...(app.at ? { at: app.at } : {}) }), { note: app.at ? `It begins at commit ${app.at}.` : "It begins with the documents as they are now." });
  if (report) app.branchesChanged();
}

/** What is shown while no document is chosen: the branches, and the newest commits. */
function overview(app) {
  const branches = following(app, { type: "branches" }, (view) => {
    const now = app.place().branch ?? "main";
    return card("Branches", h("span", { class: "more" }, deedButton(app, "Fork here", "fork", () => fork(app), "plain")), h("ul", { class: "rows" }, view.branches.map((each) => h("li", {},
      h("div", { class: "actions" }, h("a", { class: "title code", href: to("documents", "", { branch: each.name === "main" ? "" : each.name, at: "" }), "aria-current": each.name === now ? "true" : null }, each.name), each.name === now && state("clean", "shown"),
        each.name !== "main" && each.name === now && deedButton(app, `Merge into ${each.parent || "main"}`, "merge", () => merge(app, each))),
      h("p", { class: "faint" }, each.parent ? `from ${each.parent} at commit ${number(each.at)}` : "the first branch", each.merged.length > 0 && `; merged: ${each.merged.join(", ")}`)))));
  });
  const commits = following(app, { type: "commits", limit: 30 }, (view) => card("Newest commits", undefined, view.commits.length ? h("ul", { class: "rows commits" }, view.commits.map((each) => h("li", {},
    h("a", { class: "title num", href: to("documents", "", { at: each.seq }) }, number(each.seq)), h("span", { class: "links" }, each.documents.map((name) => h("a", { class: "chip", href: to("documents", name) }, shortId(name))), each.more > 0 && h("span", { class: "faint" }, `and ${number(each.more)} more`)), h("span", { class: "faint" }, `${clock(each.at_ms)}`))))
    : empty("documents", "There is no commit yet", "The first write makes one.", "headwater set NAME '{}' --create")));
  return [h("p", { class: "quiet" }, "Choose a document to see its fields, who reads it, and what it was before."), branches.element, commits.element];
}

async function merge(app, branch) {
  const into = branch.parent || "main";
  let view;
  try { view = await app.ask({ type: "difference", older: branch.at, newer: null, branch: branch.name }); } catch (error) { view = { lines: [], cut: false, trouble: error.message }; }
  const answer = await dialog(`What ${branch.name} changed`, [h("p", {}, view.trouble || `Of ${branch.name} since commit ${branch.at}:`), h("div", { class: "diff" }, view.lines.map((each) => h("div", {}, h("code", {}, `${shortId(each.address)}${each.path ? `/${each.path}` : ""} `), each.older && h("del", {}, valueLine(each.older, 60)), " ", each.newer && h("ins", {}, valueLine(each.newer, 60)))))], [h("button", { class: "button", value: "", "data-first": true }, "Cancel"), h("button", { class: "button main", value: "yes" }, `Go on to merge into ${into}`)]);
  if (answer === "yes" && (await perform(app, { type: "merge", into }))) app.branchesChanged();
}

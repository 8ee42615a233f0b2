// The graph of functions: one picture that stays live, a panel for what is chosen, the same as a table, and recorded passes.

import { Scene } from "../graph/scene.js";
import { button, empty, facts, h, icon, pre, replace, shell, state } from "../lib/dom.js";
import { number, plural, shortId, took } from "../lib/format.js";
import { pager, table } from "../lib/list.js";
import { addressChips, chips, following, refusal, sentence, valueBlock } from "../lib/parts.js";
import { changed, go, read, to } from "../lib/route.js";
import { player } from "./player.js";

const ORDER = ["failed", "running", "waiting", "invalid", "clean", "never-ran", "dormant"];
const KEEP = ({ tone, q, view, app, around, box, sort, pass, step }) => ({ tone, q, view, app, around, box, sort, pass, step });
const here = (what, query = {}) => to("graph", what, { ...KEEP(read().query), ...query });

export function open(app, first) {
  const find = h("input", { class: "field", type: "search", placeholder: "Find a function", "aria-label": "Find a function", value: first.query.q ?? "", oninput: () => go(here(read().what, { q: find.value }), { replace: true }), onkeydown: (event) => event.key === "Enter" && chooseFirst() });
  const filters = h("div", { class: "filters" });
  const aroundButton = button("Around it", () => go(here(read().what, { around: read().query.around ? "" : chosenNode() })));
  const listButton = button([icon("list"), h("span", {}, "Table")], () => toggleList(), "", { "aria-label": "Show the graph as a table", "aria-pressed": "false" });
  const fitButton = button(icon("fit"), () => scene?.fit(), "", { "aria-label": "Show all of the graph" });
  const apps = h("select", { class: "field pick", "aria-label": "App", onchange: () => go(here("", { app: apps.value, around: "" })) });
  const note = h("p", { class: "faint note clip" });
  const tools = h("div", { class: "tools" }, find, apps, filters, aroundButton, listButton, fitButton, note);
  const host = h("div", { class: "scene", "aria-busy": "true" });
  const over = h("div", { class: "over" });
  const list = functionTable(app);
  const panel = h("aside", { class: "panel", "aria-label": "What is chosen" });
  const follow = player(app, { light, here });
  const stage = h("div", { class: "stage" }, h("h1", { class: "unseen" }, "Functions"), tools, h("div", { class: "middle" }, host, list.element, over), follow.element, panel);
  let scene;
  let graph;
  let looks = [];
  let endGraph = () => {};
  let endPanel = () => {};
  let now = first;
  let asked;

  const look = (at) => looks[at];
  function setLook([at, tone, runs, mean, why]) {
    const box = graph.boxes[at];
    if (box[2] === "document") return;
    looks[at] = { tone, fact: why && tone !== "clean" ? shortId(why) : runs ? `${plural(runs, "run")} · ${took(mean)}` : tone };
  }

  function take(record, isPartial) {
    host.removeAttribute("aria-busy");
    if (!isPartial) {
      graph = record;
      looks = graph.boxes.map((box) => (box[2] === "document" ? { tone: "document", fact: box[3] > 1 ? plural(box[3], "document") : "document" } : { tone: "dormant", fact: "" }));
      for (const each of record.states) setLook(each);
      scene ??= new Scene(host, { onchoose: choose });
      scene.load(graph, look);
      const names = graph.apps.map((each) => each.label);
      apps.hidden = names.length < 2;
      replace(apps, ["", ...names].map((name) => h("option", { value: name, selected: name === (now.query.app ?? "") }, name || "All apps")));
      note.textContent = graph.note;
      note.title = graph.note;
      note.hidden = !graph.note || isList();
      replace(over, graph.boxes.length ? [] : nothing(app));
      over.hidden = graph.boxes.length > 0;
      light();
      markChosen(now.query.step === undefined);
    } else {
      graph.tones = record.tones;
      for (const each of record.states) setLook(each);
      scene.update(record.states.map((each) => each[0]));
    }
    drawFilters();
  }

  function drawFilters() {
    const tone = read().query.tone;
    replace(filters, ORDER.filter((each) => graph.tones[each] || each === tone).map((each) => button([state(each), h("b", { class: "num" }, number(graph.tones[each] ?? 0))], () => go(here(read().what, { tone: tone === each ? "" : each })), "", { "aria-pressed": String(tone === each) })));
  }

  // --- what is chosen ---

  const boxOf = (id) => (id && graph ? graph.boxes.findIndex((box) => box[8] === id || box[0] === id) : -1);
  const chosenBox = () => { const { what, query } = read(); const at = boxOf(what); return at >= 0 ? at : query.box ? boxOf(query.box) : -1; };
  function chosenNode() { const at = chosenBox(); return (at >= 0 && graph.boxes[at][3] === 1 && graph.boxes[at][8]) || read().what; }
  function choose(box, { focus = false } = {}) {
    focusNext = focus;
    go(here(box.count === 1 && graph.boxes[box.number][8] ? graph.boxes[box.number][8] : box.id, { box: "", step: "" }));
  }
  let focusNext = false;
  function chooseFirst() {
    const text = find.value.toLowerCase();
    const box = graph?.boxes.find((each) => each[1].toLowerCase().includes(text));
    if (box) go(here(box[8] || box[0]));
  }
  function markChosen(bring = true) {
    const at = chosenBox();
    if (scene && bring) scene.choose(at >= 0 ? at : undefined, { focus: focusNext });
    focusNext = false;
    aroundButton.hidden = !(read().query.around || (at >= 0 && graph.boxes[at][2] !== "document"));
    aroundButton.setAttribute("aria-pressed", String(Boolean(read().query.around)));
  }

  /** Which boxes are bright: those of the player, else those of the filter and the search. */
  function light(fromPlayer) {
    if (!scene) return;
    const steps = fromPlayer ?? follow.lit?.();
    if (steps) {
      const boxes = new Set([...steps.nodes].map(boxOf).filter((at) => at >= 0));
      scene.only(boxes, new Set(steps.edges.map(([from, into]) => `${boxOf(from)}-${boxOf(into)}`)));
      if (steps.at !== undefined && boxOf(steps.at) >= 0) scene.choose(boxOf(steps.at));
      return;
    }
    const { tone, q } = read().query;
    if (!tone && !q) { scene.only(undefined); return; }
    const text = (q ?? "").toLowerCase();
    scene.only(new Set(graph.boxes.flatMap((box, at) => ((!tone || looks[at].tone === tone) && (!q || box[1].toLowerCase().includes(text)) ? [at] : []))));
  }

  function drawPanel() {
    endPanel();
    endPanel = () => {};
    const { what, query } = read();
    panel.hidden = !what;
    stage.classList.toggle("chosen", Boolean(what));
    if (!what) { replace(panel); return; }
    const at = boxOf(what);
    const closing = button("Close", () => go(here("", { box: "", around: "" })), "plain");
    if (at >= 0 && graph.boxes[at][2] === "document") replace(panel, closing, documentBox(at));
    else if (at >= 0 && graph.boxes[at][3] > 1 && what !== graph.boxes[at][8]) {
      const members = membersOf(app, graph.boxes[at]);
      endPanel = members.close;
      replace(panel, closing, members.element, neighbours(at));
    } else {
      const one = following(app, { type: "function", node: what }, (detail) => functionDetail(app, detail), { failed: refusal });
      endPanel = one.close;
      replace(panel, closing, query.box ? h("a", { class: "quiet", href: here(query.box, { box: "" }) }, "All of its kind") : undefined, one.element);
    }
  }

  function neighbours(at) {
    const ends = (mine, other) => [...new Set(graph.routes.filter((route) => route[mine] === at && route[2] !== "parent").map((route) => route[other]))].map((each) => { const box = graph.boxes[each]; return h("a", { class: "chip", href: here(box[8] || box[0], { box: "" }) }, shortId(box[1])); });
    const group = (title, links) => h("div", {}, h("h3", {}, title), h("div", { class: "links" }, links.length ? links : h("span", { class: "quiet" }, "nothing")));
    return [group("Reads", ends(1, 0)), group("Is read by", ends(0, 1))];
  }
  function documentBox(at) {
    const [id, name, , count, , , , , node] = graph.boxes[at];
    const address = node || id;
    return [h("div", { class: "head" }, h("h2", { class: "code" }, shortId(name)), state("document", count > 1 ? plural(count, "document") : "document")), neighbours(at), h("div", { class: "actions" }, count > 1 ? h("a", { class: "button", href: to("documents", "", { kind: name }) }, "Open documents") : h("a", { class: "button main", href: to("documents", address) }, "Open document"))];
  }

  const isList = () => read().query.view === "list";
  function toggleList() { go(here(read().what, { view: read().query.view === "list" ? "" : "list" })); }

  function update(next) {
    now = next;
    const { query } = next;
    const question = { type: "graph", ...(query.app ? { app: query.app } : {}), ...(query.around ? { around: query.around } : {}) };
    host.hidden = isList();
    note.hidden = isList() || !graph?.note;
    list.element.hidden = !isList();
    listButton.setAttribute("aria-pressed", String(isList()));
    if (find !== document.activeElement) find.value = query.q ?? "";
    if (asked !== JSON.stringify(question)) {
      asked = JSON.stringify(question);
      endGraph();
      endGraph = app.watch(question, take, (error) => { host.removeAttribute("aria-busy"); over.hidden = false; replace(over, refusal(error)); });
    } else if (graph) { drawFilters(); light(); markChosen(); }
    list.update(isList() ? query : undefined, next.what);
    follow.update(query);
    drawPanel();
    return true;
  }
  const repaint = () => scene?.draw();
  addEventListener("theme", repaint);
  update(first);
  return {
    element: stage, flush: true, changed: update,
    key(event) {
      if (event.key === "v") toggleList();
      else if (event.key === "Escape" && read().what) go(here("", { box: "" }));
      else if (event.key === "+" || event.key === "-") scene?.zoom(event.key === "+" ? 1.25 : 0.8);
      else if (event.key.startsWith("Arrow") && chosenBox() >= 0 && read().query.view !== "list") {
        const next = scene.neighbour(chosenBox(), event.key);
        if (next !== undefined) choose({ number: next, id: graph.boxes[next][0], count: graph.boxes[next][3] }, { focus: true });
      } else return false;
      return true;
    },
    close() { endGraph(); endPanel(); list.close(); follow.close(); removeEventListener("theme", repaint); scene?.resize.disconnect(); },
  };
}

const nothing = () => empty("functions", "No function is known here", "The functions of a program that opens this space would be drawn here, with what they read and why they ran.", "headwater dev MODULE:APP");

// --- one function -------------------------------------------------------------------------------------------

export function functionDetail(app, one) {
  const name = one.piece ? `${one.name} of ${one.piece}` : one.name;
  return h("div", { class: "stack tight" },
    h("div", { class: "head" }, h("h2", { class: "code", title: one.id }, shortId(one.name)), state(one.tone, one.state || one.tone)),
    one.piece && h("p", { class: "quiet" }, "of ", h("a", { href: to("pieces", one.piece) }, one.piece)),
    one.error && pre("Error", one.error),
    one.gate && h("p", { class: "quiet" }, shortId(one.gate)),
    h("div", {}, h("h3", {}, "Why"), h("ol", { class: "why" }, one.why.map((parts) => h("li", {}, sentence(parts))))),
    facts([["Kind", one.kind], ["App", one.app], ["Runs", number(one.runs)], ["Mean", one.runs > 0 && took(one.mean_ms)], ["Made invalid", number(one.invalidated)], ["Waiting events", one.waiting > 0 && number(one.waiting)], ["Live", one.why_live], ["Part of", one.parent && h("a", { href: to("graph", one.parent) }, shortId(one.parent))], ["Source", one.file && h("span", { title: one.file }, `${one.file.split("/").slice(-2).join("/")}:${one.line}`)]]),
    h("div", {}, h("h3", {}, "Reads"), addressChips(one.reads, "nothing")),
    one.writes.length > 0 && h("div", {}, h("h3", {}, "Writes"), addressChips(one.writes, "nothing")),
    h("div", {}, h("h3", {}, "Is read by"), chips(one.readers, "no function")),
    one.result && h("div", {}, h("h3", {}, "Result"), valueBlock("Result", one.result)),
    shell(`headwater why '${name.replaceAll("'", "")}'`));
}

/** The members of a shared box. */
function membersOf(app, box) {
  const view = h("div", { class: "stack tight" });
  const rows = table(`Functions of ${box[1]}`, [["Function", (row) => h("span", { class: "code", title: row.name }, shortId(row.name))], ["State", (row) => state(row.tone)], ["Runs", (row) => number(row.runs), "num"]]);
  const foot = h("div", {});
  let end = () => {};
  function load(after) {
    end();
    end = app.watch({ type: "functions", box: box[0], after }, (page) => {
      rows.show(page.functions, (row) => row.id, { link: (row) => here(row.id, { box: box[0] }) });
      replace(foot, pager({ count: page.functions.length, what: `of ${number(page.total)}`, next: page.next, onnext: () => load(page.next), first: after > 0, onfirst: () => load(0) }));
    });
  }
  load(0);
  replace(view, h("div", { class: "head" }, h("h2", { class: "code" }, shortId(box[1]))), rows.element, foot);
  return { element: view, close: () => end() };
}

/** All functions as a table: for screen readers, and to sort by time. */
function functionTable(app) {
  const rows = table("Functions", [
    ["Function", (row) => h("span", { class: "code", title: row.piece ? `${row.name} of ${row.piece}` : row.name }, shortId(row.name), row.piece && h("span", { class: "faint" }, ` of ${shortId(row.piece)}`))], ["Kind", (row) => row.kind], ["State", (row) => state(row.tone)],
    ["Runs", (row) => number(row.runs), "num"], ["Mean", (row) => (row.runs ? took(row.mean_ms) : ""), "num"], ["Note", (row) => shortId(row.error || row.gate), "wide"], ["Source", (row) => row.file && `${row.file.split("/").pop()}:${row.line}`, "wide"],
  ]);
  const sorts = h("div", { class: "actions" });
  const foot = h("div", {});
  const element = h("div", { class: "listing", hidden: true }, sorts, rows.element, foot);
  let end = () => {};
  let asked;
  let what;
  return {
    element,
    close: () => end(),
    update(query, chosen) {
      what = chosen;
      if (!query) { end(); asked = undefined; return; }
      const question = { type: "functions", sort: query.sort ?? "state", ...(query.q ? { search: query.q } : {}), ...(query.tone ? { tone: query.tone } : {}), ...(query.app ? { app: query.app } : {}), after: Number(query.after) || 0 };
      if (asked === JSON.stringify(question)) return;
      asked = JSON.stringify(question);
      replace(sorts, ["state", "name", "runs", "time"].map((each) => button(`By ${each}`, () => go(changed({ sort: each, after: "" })), "", { "aria-pressed": String(question.sort === each) })));
      end();
      end = app.watch(question, (page) => {
        rows.show(page.functions, (row) => row.id, { link: (row) => here(row.id, { box: "" }), chosen: what });
        replace(foot, page.functions.length ? pager({ count: page.functions.length, what: `of ${plural(page.total, "function")}`, next: page.next, onnext: () => go(changed({ after: page.next })), first: question.after > 0, onfirst: () => go(changed({ after: "" })) }) : empty("functions", "No function matches", "Another word, or another state, may find one."));
      });
    },
  };
}

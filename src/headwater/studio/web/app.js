// The frame around every screen: screens, space, branch and time, search, theme, keys. A screen is loaded when it is first opened.

import { dialog } from "./lib/acting.js";
import { announce, button, empty, h, icon, replace, shell, toast } from "./lib/dom.js";
import { clock } from "./lib/format.js";
import { step } from "./lib/list.js";
import { Link } from "./lib/link.js";
import * as route from "./lib/route.js";
import { finder } from "./views/search.js";

export const SCREENS = [
  ["overview", "Overview", "o"], ["graph", "Functions", "f", "functions"], ["documents", "Documents", "d"], ["workflows", "Workflows", "w"], ["events", "Events", "e"],
  null, ["resources", "Resources", "r"], ["pieces", "Pieces", "p"], ["query", "Query", "q"], ["server", "Server", "s"],
];
const LEAD_MS = 900; // between g and the key of a screen

// --- what the screens get -----------------------------------------------------------------------------------

const link = new Link(onState);
const app = {
  link,
  welcome: {},
  /** The space and branch of the address, as every question has them. */
  place() {
    const { space, branch } = route.read().query;
    return { ...(space ? { space } : {}), ...(branch ? { branch } : {}) };
  },
  /** The commit that is read, if it is not the newest. */
  get at() { return Number(route.read().query.at) || undefined; },
  inSpace: (deed) => ({ ...app.place(), ...deed }),
  ask: (question) => link.ask({ ...app.place(), ...question }),
  watch: (question, show, fail) => link.watch({ ...app.place(), ...question }, show, fail ?? ((error) => trouble(error))),
  /** Why deeds of this kind cannot be done; empty: they can. */
  refusal(type) {
    if (!link.isOpen) return "There is no connection.";
    if (app.at && !["restore", "fork", "record"].includes(type)) return `This is commit ${app.at}, which cannot be changed.`;
    if (app.welcome.read_only) return "This page is read-only.";
    return app.welcome.cannot?.[type] ?? "";
  },
};

// --- the frame ----------------------------------------------------------------------------------------------

const root = document.documentElement;
root.dataset.theme = localStorage.getItem("headwater-studio-theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
function turnTheme() {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("headwater-studio-theme", root.dataset.theme);
  dispatchEvent(new Event("theme"));
}

const files = new URL(".", import.meta.url).pathname;
const main = h("main", { id: "main", tabindex: "-1" });
const rail = h("nav", { class: "rail", "aria-label": "Screens" }, SCREENS.map((each) => each ? h("a", { "data-screen": each[0] }, icon(each[3] ?? each[0]), h("span", {}, each[1])) : h("hr", {})));
const spaceName = h("b", { class: "clip" });
const spaces = h("select", { class: "pick", "aria-label": "Space", onchange: () => route.go(route.to(current?.screen ?? "overview", "", { space: spaces.value, branch: "", at: "" })) });
const branches = h("select", { class: "pick wide", "aria-label": "Branch", onchange: () => route.go(route.to(current?.screen ?? "overview", "", { branch: branches.value === "main" ? "" : branches.value, at: "" })) });
const live = h("span", { class: "state tone-dormant", id: "connection" }, "Connecting");
const commit = h("span", { class: "wide quiet num", id: "commit" });
const now = button("Now", () => route.go(route.changed({ at: "" })), "", { hidden: true });
const bar = h("header", { class: "bar" },
  h("a", { class: "brand", href: "#/overview", "aria-label": "Headwater Studio" }, h("img", { src: `${files}icon.svg`, alt: "" }), h("span", {}, "Headwater")),
  h("div", { class: "crumb" }, spaceName, spaces, branches, live, commit, now), h("div", { class: "push" }),
  h("button", { class: "find", type: "button", "aria-label": "Search functions, documents and runs", onclick: () => search.open() }, icon("search"), h("span", { class: "wide" }, "Search"), h("kbd", { class: "wide" }, "/")),
  h("button", { class: "button plain", type: "button", "aria-label": "Light or dark", onclick: turnTheme }, icon("theme")));
const search = finder(app);
document.getElementById("shell").append(bar, rail, main);

let current; // {screen, what, view}
let shown = 0;

async function show() {
  const now = route.read();
  if (!link.isOpen && !current) return;
  const [name, title] = SCREENS.find((each) => each?.[0] === now.screen) ?? [];
  for (const each of rail.querySelectorAll("a")) {
    each.setAttribute("href", route.to(each.dataset.screen));
    if (each.dataset.screen === name) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  drawState();
  followSpace();
  document.title = `${title ?? "Studio"}${now.what ? ` · ${now.what}` : ""} · ${app.welcome.title || "Headwater"} Studio`;
  const where = JSON.stringify([app.place(), app.at]);
  const done = () => { main.dataset.shown = location.hash; };
  if (current?.screen === now.screen && current.where === where && current.view.changed?.(now)) { done(); return; }
  current?.view.close?.();
  const turn = (shown += 1);
  if (!name) {
    current = { screen: now.screen, where, view: {} };
    main.className = "";
    replace(main, h("div", { class: "page" }, empty("dormant", `There is no screen "${now.screen}"`, "The address names a screen that this Studio does not have.")));
    done();
    return;
  }
  const isSame = current?.screen === now.screen;
  const screen = await import(`./views/${name}.js`);
  if (turn !== shown) return; // another screen was opened meanwhile
  const view = screen.open(app, now);
  current = { screen: now.screen, where, view };
  main.className = view.flush ? "flush" : "";
  replace(main, view.element);
  done();
  if (!isSame) announce(title);
}

const attention = new Map();
let followed;
/** One watch for the rail: what needs attention on each screen. */
function followSpace() {
  const key = JSON.stringify(app.place());
  if (followed?.key === key) return;
  followed?.end();
  app.overview = undefined;
  const listeners = new Set();
  app.onOverview = (listener) => { listeners.add(listener); if (app.overview) listener(app.overview); return () => listeners.delete(listener); };
  followed = { key, end: app.watch({ type: "overview" }, (record) => {
    app.overview = record;
    for (const [screen, count] of Object.entries(record.counts)) tally(screen, count);
    spaceName.textContent = record.space || spaceName.textContent;
    for (const listener of listeners) listener(record);
  }, (error) => { app.overviewTrouble = error; for (const listener of listeners) listener(undefined, error); }) };
  app.ask({ type: "branches" }).then((found) => fillPick(branches, found.branches.map((each) => each.name), app.place().branch ?? "main"), () => fillPick(branches, [], ""));
  fillPick(spaces, app.welcome.spaces ?? [], app.place().space ?? app.welcome.spaces?.[0]);
  spaceName.hidden = !spaces.hidden;
  spaceName.textContent = app.place().space ?? app.welcome.spaces?.[0] ?? app.welcome.title;
}
app.branchesChanged = () => { if (followed) followed.key = ""; followSpace(); };
const TONES = { workflows: "waiting" };
function tally(screen, count) {
  if (attention.get(screen) === count) return;
  attention.set(screen, count);
  const entry = rail.querySelector(`[data-screen="${CSS.escape(screen)}"]`);
  entry?.querySelector(".tally")?.remove();
  if (entry && count && screen !== "overview") entry.append(h("span", { class: `tally tone-${TONES[screen] ?? "failed"}` }, count > 999 ? "999+" : count, h("span", { class: "unseen" }, " need attention")));
}
function fillPick(element, names, chosen) {
  element.hidden = names.length < 2;
  replace(element, names.map((name) => h("option", { value: name, selected: name === chosen }, name)));
}

// --- the state of the connection and the program ------------------------------------------------------------

let facts = { seq: 0, at_ms: 0, live: "live", busy: "" };
link.onanswer = (frame) => {
  if (!frame.seq && !frame.live) return; // of an answer that is not about the space
  facts = { seq: frame.seq ?? facts.seq, at_ms: frame.at_ms ?? 0, live: frame.live ?? "live", busy: frame.busy ?? "" };
  app.seq = facts.seq;
  drawState();
};
const LIVE = { live: ["clean", "Live"], server: ["clean", "Live"], closed: ["dormant", "Closed"], ended: ["invalid", "Ended"] };
function drawState() {
  const [tone, word] = !link.isOpen ? ["invalid", link.state === "lost" ? "Connection lost" : "Connecting"] : facts.busy ? ["running", `Busy: ${facts.busy}`] : LIVE[facts.live] ?? LIVE.live;
  const at = app.at;
  live.className = `state tone-${at ? "invalid" : tone}`;
  live.textContent = at ? "The past" : word;
  commit.textContent = at ? `commit ${at}, read only` : facts.live === "closed" || facts.live === "ended" ? `commit ${facts.seq}; as of ${clock(facts.at_ms)}` : facts.seq ? `commit ${facts.seq}` : "";
  bar.classList.toggle("past", Boolean(at));
  root.classList.toggle("offline", !link.isOpen || facts.live === "ended");
  now.hidden = !at;
}

let lostSince;
function onState(state, frame) {
  if (state === "open") {
    app.welcome = frame;
    clearTimeout(lostSince);
    document.querySelector(".lost")?.remove();
    const isFirst = !current;
    if (isFirst) { replace(main); if (!document.getElementById("shell").isConnected) document.body.append(document.getElementById("shell")); }
    document.body.classList.remove("out");
    drawState();
    show();
    rail.querySelector("[data-screen=server]").hidden = frame.place !== "server";
  } else if (state === "lost") {
    drawState();
    clearTimeout(lostSince);
    lostSince = setTimeout(() => {
      if (!link.isOpen && !document.querySelector(".lost")) document.body.append(h("div", { class: "lost", role: "alert" }, "Connection lost, trying again. What you see is as it was."));
    }, 1000);
  } else if (state === "login") login(frame?.message);
  else if (state === "trouble" && link.isOpen) toast(frame.message, "failed");
}
function trouble(error) {
  toast(error.message, "failed");
}

function login(why) {
  current?.view.close?.();
  current = undefined;
  document.body.classList.add("out");
  drawState();
  const token = h("input", { class: "field code", type: "password", name: "token", autocomplete: "off", required: true, "aria-label": "Token" });
  replace(main, h("div", { class: "page narrow" }, h("form", { class: "card body stack", onsubmit: (event) => { event.preventDefault(); const text = token.value.trim(); token.value = ""; link.start(text.startsWith("hw") ? { token: text } : { code: text }); } },
    h("h1", {}, "Headwater Studio"),
    why && h("p", { class: "wrong", role: "alert" }, why),
    h("p", { class: "quiet" }, "Paste a token of this server. It is sent once, and not stored; this tab keeps a session of twelve hours."),
    h("label", { class: "typed" }, h("span", {}, "Token"), token), h("div", { class: "actions" }, h("button", { class: "button main", type: "submit" }, "Open")),
    h("p", { class: "quiet" }, "On your own machine, the command prints a new link, which works once:"), shell("headwater studio FILE"))));
  main.className = "";
  token.focus();
}

// --- keys ---------------------------------------------------------------------------------------------------

const KEYS = [["/", "Search"], ["g, then o f d w e r p q s", "Overview, Functions, Documents, Workflows, Events, Resources, Pieces, Query, Server"], ["j k", "Next and previous in a list"], ["Enter", "Open"], ["Arrows", "Walk along the edges of the graph"],
  ["v", "The graph as a table, and back"], ["[ ]", "Previous and next commit"], ["t", "Light or dark"], ["?", "This list"], ["Esc", "Close; back to now"]];
let led = 0;
addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const { key } = event;
  if (event.timeStamp - led < LEAD_MS && key !== "g") {
    led = 0;
    const found = SCREENS.find((each) => each?.[2] === key);
    if (found) { event.preventDefault(); route.go(route.to(found[0])); return; }
  }
  if (key === "g") led = event.timeStamp;
  else if (key === "/") { event.preventDefault(); search.open(); }
  else if (key === "t") turnTheme();
  else if (key === "?") dialog("Keys", h("dl", { class: "facts keys" }, KEYS.flatMap(([name, what]) => [h("dt", {}, h("kbd", {}, name)), h("dd", {}, what)])), [h("button", { class: "button main", value: "", "data-first": true }, "Close")]);
  else if (key === "j" || key === "k") step(key === "j" ? 1 : -1);
  else if (key === "[" || key === "]") travel(key === "[" ? -1 : 1);
  else if (key === "Escape" && app.at) route.go(route.changed({ at: "" }));
  else if (current?.view.key?.(event)) event.preventDefault();
});
/** To the commit before or after; past the newest is now. */
function travel(by) {
  const to = (app.at ?? facts.seq) + by;
  if (to >= 1 && (by < 0 || app.at)) route.go(route.changed({ at: to >= facts.seq ? "" : to }), { replace: true });
}

// --- begin --------------------------------------------------------------------------------------------------

let seen = route.read().screen;
addEventListener("hashchange", () => {
  const { screen } = route.read();
  if (screen !== seen) for (const each of document.querySelectorAll("dialog[open]")) each.close();
  show().then(() => { if (screen !== seen) { main.focus(); scrollTo(0, 0); } seen = screen; });
});
const opening = new URLSearchParams(location.hash.replace(/^#/, "").startsWith("/") ? "" : location.hash.slice(1));
const code = opening.get("c");
if (location.hash && !location.hash.startsWith("#/")) history.replaceState(null, "", `${location.pathname}#/${opening.get("to") ?? "overview"}`);
if (code) sessionStorage.removeItem("headwater-studio-session");
if (code || link.hasSession) link.start(code ? { code } : undefined);
else login();

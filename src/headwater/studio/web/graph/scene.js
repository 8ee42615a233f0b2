// The drawing of a graph: SVG for what is near, one canvas for what is far. Only what can be seen is in the page, so a change costs
// the same with 200 and with 20,000 nodes. Layout comes from the server; this file never computes a position.

import { iconPath, s, signOf, visible } from "../lib/dom.js";

const FAR = 0.42; // below this zoom no text can be read: flat colours on a canvas
const NARROW = 600;
const READABLE = 0.7;
const FEW = 60; // so few boxes are always SVG
const MARGIN = 240; // around the view, so that panning finds what it needs
const ZOOM = [0.05, 2];
const LETTER = 7.25; // pixels of a letter of a name, and of the fact below it
const SMALL = 5.7;
const MINI = [336, 208]; // pixels of the small map, two for each of the page

export class Scene {
  #host; #canvas; #svg; #world; #lines; #nodes; #mini;
  #view = { x: 0, y: 0, z: 1 };
  #shown = new Map(); // number of a box -> its elements
  #boxes = []; #routes = []; #size = [1, 1];
  #look; #far; #stale; #pending;

  /** `onchoose(box)`, `onopen(box)` for Enter on the chosen one. */
  constructor(host, { onchoose }) {
    this.#host = host;
    this.onchoose = onchoose;
    this.#canvas = host.appendChild(document.createElement("canvas"));
    this.#canvas.setAttribute("aria-hidden", "true");
    this.#svg = host.appendChild(s("svg", { role: "group", "aria-label": "Graph of functions; arrow keys move along the edges" }));
    this.#world = this.#svg.appendChild(s("g", {}));
    this.#lines = this.#world.appendChild(s("g", { "aria-hidden": "true" }));
    this.#nodes = this.#world.appendChild(s("g", {}));
    this.#mini = host.appendChild(Object.assign(document.createElement("canvas"), { className: "mini", width: MINI[0], height: MINI[1] }));
    this.#mini.setAttribute("aria-hidden", "true");
    this.#listen();
  }

  get view() { return this.#view; }

  /** Positions: boxes are numbered by their place. `look(number)` says how a box looks now: {tone, fact}. */
  load(graph, look) {
    const first = !this.#boxes.length;
    const held = this.chosen === undefined ? undefined : this.#boxes[this.chosen];
    this.#look = look;
    this.#boxes = graph.boxes.map(([id, name, kind, count, x, y, w, h], number) => ({ number, id, name, kind, count, x, y, w, h, shown: fitted(visible(name).replace(/ x (\d+)$/, " × $1"), w, LETTER) }));
    this.#routes = graph.routes.map(([source, target, kind, points]) => ({ source, target, kind, path: curve(points), box: bounds(points) }));
    this.#size = [Math.max(graph.width, 1), Math.max(graph.height, 1)];
    this.#far = undefined;
    this.#shown.clear();
    this.#nodes.replaceChildren();
    this.chosen = undefined;
    if (held) { // the chosen box keeps its place on the screen
      const now = this.#boxes.find((box) => box.id === held.id);
      if (now) {
        this.chosen = now.number;
        this.#view.x += (held.x - now.x) * this.#view.z;
        this.#view.y += (held.y - now.y) * this.#view.z;
      }
    }
    this.#markNear();
    if (first) this.fit();
    else this.draw();
  }

  /** Some boxes look different now. Those that are not in view cost a dot of the small map. */
  update(numbers) {
    for (const number of numbers) if (this.#shown.has(number)) this.#paint(number);
    this.#queueFar(numbers);
  }

  choose(number, { focus = false } = {}) {
    this.chosen = number;
    this.#markNear();
    if (number !== undefined) this.#bring(this.#boxes[number]);
    this.draw();
    if (focus) this.#shown.get(number)?.group.focus({ preventScroll: true });
  }

  /** Only these boxes are bright; undefined: all. `edges`: source-target pairs that are drawn as near. */
  only(numbers, edges) {
    this.kept = numbers;
    this.edges = edges;
    this.draw();
  }

  fit() {
    const { clientWidth: w, clientHeight: h } = this.#host;
    const z = Math.max(Math.min((w - 48) / this.#size[0], (h - 48) / this.#size[1], 1.1), ZOOM[0]);
    this.#view = { z, x: (w - this.#size[0] * z) / 2, y: (h - this.#size[1] * z) / 2 };
    if (w < NARROW && z < READABLE) this.#view = { z: READABLE, x: 12, y: 12 }; // a phone shows its beginning
    this.draw();
  }

  zoom(factor, at = [this.#host.clientWidth / 2, this.#host.clientHeight / 2]) {
    const z = Math.min(ZOOM[1], Math.max(ZOOM[0], this.#view.z * factor));
    const grown = z / this.#view.z;
    this.#view = { z, x: at[0] - (at[0] - this.#view.x) * grown, y: at[1] - (at[1] - this.#view.y) * grown };
    this.draw();
  }

  draw() {
    if (!this.#look) return;
    const { x, y, z } = this.#view;
    const far = z < FAR && this.#boxes.length > FEW;
    this.#world.setAttribute("transform", `translate(${x} ${y}) scale(${z})`);
    this.#svg.style.display = far ? "none" : "";
    this.#host.classList.toggle("far", far);
    const seen = { l: (-x - MARGIN) / z, t: (-y - MARGIN) / z, r: (this.#host.clientWidth - x + MARGIN) / z, b: (this.#host.clientHeight - y + MARGIN) / z };
    const inside = far ? [] : this.#boxes.filter((box) => box.x < seen.r && box.x + box.w > seen.l && box.y < seen.b && box.y + box.h > seen.t);
    const wanted = new Set(inside.map((box) => box.number));
    for (const [number, parts] of this.#shown) if (!wanted.has(number)) { parts.group.remove(); this.#shown.delete(number); }
    for (const box of inside) { if (!this.#shown.has(box.number)) this.#add(box); this.#paint(box.number); }
    const lines = far ? [] : this.#routes.filter(({ box }) => box.l < seen.r && box.r > seen.l && box.t < seen.b && box.b > seen.t);
    this.#lines.replaceChildren(...lines.map((route) => s("path", { d: route.path, class: `edge ${route.kind} ${this.#edgeTone(route)}` })));
    this.#queueFar();
  }

  /** The boxes that can be seen, for tests and the list beside the graph. */
  get drawn() { return [...this.#shown.keys()]; }

  #edgeTone(route) {
    if (this.edges) return this.edges.has(`${route.source}-${route.target}`) ? "near" : "faded";
    if (this.chosen !== undefined) return route.source === this.chosen || route.target === this.chosen ? "near" : "faded";
    return this.kept && !(this.kept.has(route.source) && this.kept.has(route.target)) ? "faded" : "";
  }

  #markNear() {
    this.near = new Set([this.chosen]);
    if (this.chosen === undefined) return;
    for (const route of this.#routes) if (route.source === this.chosen || route.target === this.chosen) this.near.add(route.source).add(route.target);
  }

  #isFaded(number) {
    if (this.kept) return !this.kept.has(number);
    return this.chosen !== undefined && !this.near.has(number);
  }

  /** Into view, and large enough to be read; where it can be read already, nothing moves. */
  #bring(box) {
    if (!box) return;
    const { clientWidth: w, clientHeight: h } = this.#host;
    const z = Math.max(this.#view.z, 0.72);
    const [left, top] = [box.x * z + this.#view.x, box.y * z + this.#view.y];
    const isSeen = z === this.#view.z && left > 0 && top > 0 && left + box.w * z < w && top + box.h * z < h;
    if (!isSeen) this.#view = { z, x: w / 2 - (box.x + box.w / 2) * z, y: h / 2 - (box.y + box.h / 2) * z };
  }

  #add(box) {
    const fact = s("text", { class: "fact", x: 34, y: 36 });
    const sign = s("path", { class: "sign", transform: "translate(12 16) scale(.62)" });
    const group = s("g", { transform: `translate(${box.x} ${box.y})`, tabindex: "0", role: "button", "data-box": box.id, onclick: () => this.onchoose(box), onkeydown: (event) => this.#key(event, box) },
      box.count > 1 && s("rect", { class: "behind", x: 5, y: 5, width: box.w, height: box.h, rx: 9 }),
      s("rect", { class: "box", width: box.w, height: box.h, rx: box.kind === "document" ? 3 : 9 }),
      s("rect", { class: "edge-mark", width: 4, height: box.h - 12, x: 0, y: 6, rx: 2 }),
      sign, s("text", { x: 34, y: 20 }, `${box.shown} `), fact);
    this.#nodes.append(group);
    this.#shown.set(box.number, { group, fact, sign });
  }

  #paint(number) {
    const { group, fact, sign } = this.#shown.get(number);
    const look = this.#look(number);
    const { name, shown, w } = this.#boxes[number];
    const said = fitted(visible(look.fact), w, SMALL);
    group.setAttribute("class", `node tone-${look.tone}${this.chosen === number ? " chosen" : ""}${this.#isFaded(number) ? " faded" : ""}`);
    group.setAttribute("aria-label", `${shown} ${said}, ${look.tone}${shown.endsWith("…") ? `, ${visible(name)}` : ""}`);
    sign.setAttribute("d", iconPath(signOf(look.tone)));
    fact.textContent = said;
  }

  #key(event, box) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.onchoose(box); return; }
    const next = this.neighbour(box.number, event.key);
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.onchoose(this.#boxes[next], { focus: true });
  }

  /** Right and left along the edges; up and down to the box above or below in the same rank. */
  neighbour(number, key) {
    const box = this.#boxes[number];
    if (key === "ArrowRight") return this.#routes.find((route) => route.source === number && route.kind !== "parent")?.target;
    if (key === "ArrowLeft") return this.#routes.find((route) => route.target === number && route.kind !== "parent")?.source;
    if (key !== "ArrowDown" && key !== "ArrowUp") return undefined;
    const sign = key === "ArrowDown" ? 1 : -1;
    return this.#boxes.filter((each) => (each.y - box.y) * sign > 0 && each.x < box.x + box.w && each.x + each.w > box.x).sort((a, b) => (a.y - b.y) * sign)[0]?.number;
  }

  /** In the next frame: all of it, or only these boxes if nothing has moved. */
  #queueFar(numbers) {
    if (numbers && this.#stale !== "all") { this.#stale ??= new Set(); for (const each of numbers) this.#stale.add(each); }
    else this.#stale = "all";
    this.#pending ??= requestAnimationFrame(() => { this.#pending = undefined; this.#drawFar(); });
  }

  #drawFar() {
    const isWhole = this.#stale === "all";
    const boxes = isWhole ? this.#boxes : [...this.#stale].map((number) => this.#boxes[number]).filter(Boolean);
    this.#stale = undefined;
    const style = getComputedStyle(this.#host);
    const colours = new Map();
    const colour = (tone) => {
      if (!colours.has(tone)) colours.set(tone, style.getPropertyValue(`--${tone === "document" ? "line-strong" : tone === "never-ran" ? "dormant" : tone}`));
      return colours.get(tone);
    };
    const fill = (context, z, x, y) => {
      for (const box of boxes) {
        context.fillStyle = colour(this.#look(box.number).tone);
        context.globalAlpha = this.#isFaded(box.number) ? 0.3 : 1;
        context.fillRect(box.x * z + x, box.y * z + y, Math.max(box.w * z, 2), Math.max(box.h * z, 2));
      }
      context.globalAlpha = 1;
    };
    this.#drawMini(isWhole, style, fill);
    const { clientWidth: w, clientHeight: h } = this.#host;
    if (isWhole) [this.#canvas.width, this.#canvas.height] = [w, h];
    if (this.#svg.style.display !== "none") return;
    const context = this.#canvas.getContext("2d");
    const { x, y, z } = this.#view;
    if (isWhole) {
      context.strokeStyle = style.getPropertyValue("--edge");
      context.setTransform(z, 0, 0, z, x, y);
      this.#far ??= this.#routes.reduce((all, route) => { all.addPath(new Path2D(route.path)); return all; }, new Path2D());
      context.stroke(this.#far);
      context.setTransform(1, 0, 0, 1, 0, 0);
    }
    fill(context, z, x, y);
  }

  #drawMini(isWhole, style, fill) {
    const mini = this.#mini.getContext("2d");
    const z = Math.min((MINI[0] - 16) / this.#size[0], (MINI[1] - 16) / this.#size[1]);
    if (isWhole) mini.clearRect(0, 0, ...MINI);
    fill(mini, z, 8, 8);
    if (!isWhole) return;
    const view = this.#view;
    const { clientWidth: w, clientHeight: h } = this.#host;
    this.#mini.hidden = view.x >= 0 && view.y >= 0 && view.x + this.#size[0] * view.z <= w && view.y + this.#size[1] * view.z <= h;
    mini.strokeStyle = style.getPropertyValue("--accent");
    mini.lineWidth = 2;
    mini.strokeRect(8 - (view.x / view.z) * z, 8 - (view.y / view.z) * z, (this.#host.clientWidth / view.z) * z, (this.#host.clientHeight / view.z) * z);
  }

  #listen() {
    let held;
    const host = this.#host;
    const place = (event) => { const { left, top } = host.getBoundingClientRect(); return [event.clientX - left, event.clientY - top]; };
    host.addEventListener("pointerdown", (event) => {
      if (event.target.closest(".node")) return;
      held = { x: event.clientX - this.#view.x, y: event.clientY - this.#view.y, at: place(event) };
      host.setPointerCapture(event.pointerId);
    });
    host.addEventListener("pointermove", (event) => {
      if (!held) return;
      this.#view.x = event.clientX - held.x;
      this.#view.y = event.clientY - held.y;
      this.draw();
    });
    host.addEventListener("pointerup", (event) => {
      const still = held && Math.hypot(place(event)[0] - held.at[0], place(event)[1] - held.at[1]) < 4;
      held = undefined;
      if (!still || this.#svg.style.display !== "none") return;
      const [x, y] = place(event); // on the canvas a click finds its box by its place
      const at = [(x - this.#view.x) / this.#view.z, (y - this.#view.y) / this.#view.z];
      const box = this.#boxes.find((each) => at[0] >= each.x && at[0] <= each.x + each.w && at[1] >= each.y && at[1] <= each.y + each.h);
      if (box) this.onchoose(box);
    });
    host.addEventListener("pointercancel", () => { held = undefined; });
    host.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY / 500), place(event)); }, { passive: false });
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(host);
  }
}

function fitted(text, width, letter) {
  const room = Math.max(Math.floor((width - 40) / letter), 6);
  return text.length > room ? `${text.slice(0, room - 1)}…` : text;
}

function curve(points) {
  let path = `M${points[0]} ${points[1]}`;
  for (let at = 2; at < points.length; at += 2) {
    const middle = (points[at - 2] + points[at]) / 2;
    path += `C${middle} ${points[at - 1]} ${middle} ${points[at + 1]} ${points[at]} ${points[at + 1]}`;
  }
  return path;
}

function bounds(points) {
  const [xs, ys] = [points.filter((_, at) => at % 2 === 0), points.filter((_, at) => at % 2)];
  return { l: Math.min(...xs), r: Math.max(...xs), t: Math.min(...ys), b: Math.max(...ys) };
}

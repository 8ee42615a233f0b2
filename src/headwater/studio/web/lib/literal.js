// JSON as text and back, exact: numbers keep their spelling (1 and 1.0 differ, 2^63 is not rounded), objects are Maps and
// keep their order, also for keys that look like numbers.

const DEPTH_MAX = 600; // values are at most 512 deep

/** A number as it is written. */
export class Exact {
  constructor(text) { this.text = text; }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORDS = [["true", true], ["false", false], ["null", null]];

/** Raises SyntaxError with the place. */
export function parse(text) {
  let at = 0;
  const fail = (wanted) => { throw new SyntaxError(`${wanted} expected at character ${at + 1}`); };
  const blank = () => { while (" \t\r\n".includes(text[at] ?? "x")) at += 1; };
  function string() {
    const begin = at;
    at += 1;
    while (text[at] !== '"') {
      if (at >= text.length) fail('"');
      at += text[at] === "\\" ? 2 : 1;
    }
    at += 1;
    try {
      return JSON.parse(text.slice(begin, at));
    } catch {
      at = begin;
      return fail("a string without control characters");
    }
  }
  function members(close, one) {
    at += 1;
    blank();
    if (text[at] === close) { at += 1; return; }
    for (;;) {
      one();
      blank();
      if (text[at] === close) { at += 1; return; }
      if (text[at] !== ",") fail(`, or ${close}`);
      at += 1;
    }
  }
  function value(depth) {
    if (depth > DEPTH_MAX) fail("less depth");
    blank();
    if (text[at] === '"') return string();
    if (text[at] === "[") {
      const found = [];
      members("]", () => found.push(value(depth + 1)));
      return found;
    }
    if (text[at] === "{") {
      const found = new Map();
      members("}", () => {
        blank();
        if (text[at] !== '"') fail("a key in double quotes");
        const key = string();
        if (found.has(key)) fail(`no second key ${JSON.stringify(key)}`);
        blank();
        if (text[at] !== ":") fail(":");
        at += 1;
        found.set(key, value(depth + 1));
      });
      return found;
    }
    for (const [word, meant] of WORDS) if (text.startsWith(word, at)) { at += word.length; return meant; }
    NUMBER.lastIndex = at;
    const found = NUMBER.exec(text);
    if (!found) fail("a value");
    at += found[0].length;
    return new Exact(found[0]);
  }
  const found = value(0);
  blank();
  if (at < text.length) fail("the end");
  return found;
}

export function write(value, indent = "", before = "") {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const inner = before + indent;
  const parts = isList ? value.map((each) => write(each, indent, inner)) : [...value].map(([key, each]) => `${JSON.stringify(key)}:${indent ? " " : ""}${write(each, indent, inner)}`);
  const [open, close] = isList ? "[]" : "{}";
  if (!parts.length) return open + close;
  return indent ? `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${before}${close}` : open + parts.join(",") + close;
}

const LINK = "link@1";
export const isLink = (value) => value instanceof Map && value.get("/") instanceof Map && value.get("/").has(LINK);
export function linkTarget(value) {
  const target = value.get("/").get(LINK);
  if (typeof target === "string") return target;
  return target instanceof Map ? String(target.get("id") ?? write(target)) : write(target);
}

// Values, times and names for people. One place, so that no two screens disagree.

import { Exact, isLink, linkTarget, parse, write } from "./literal.js";

/** Ids are shortened to five letters; the whole name is in `title`. */
export const shortId = (name) => name.replace(/([:$@ ]|^)([a-z2-7]{5})[a-z2-7]{15,}/g, "$1$2…");
export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
export const number = (value) => Number(value).toLocaleString("en");
export const took = (ms) => {
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
};
const two = (value) => String(value).padStart(2, "0");
/** A time of today as 14:02:11, of another day with the date before it. */
export function clock(atMs) {
  if (!atMs) return "";
  const at = new Date(atMs);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return at.toDateString() === new Date().toDateString() ? time : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}
export const ago = (atMs, now = Date.now()) => (atMs ? `${took(Math.max(now - atMs, 0))} ago` : "");
export const bytes = (size) => (size < 1024 ? `${size} B` : size < 1048576 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1048576).toFixed(1)} MiB`);

/** A value in one line. `text` is JSON, exact. */
export function preview(text, most = 120) {
  if (text === undefined || text === null || text === "") return "";
  let value;
  try {
    value = parse(text);
  } catch {
    return cut(text, most);
  }
  return cut(line(value), most);
}
export function line(value) {
  if (isLink(value)) return `→ ${shortId(linkTarget(value))}`;
  return shortId(write(value));
}
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export function typeOf(value) {
  if (value === null) return "null";
  if (isLink(value)) return "link";
  if (value instanceof Exact) return /[.eE]/.test(value.text) ? "float" : "int";
  if (Array.isArray(value)) return "list";
  if (value instanceof Map) return "map";
  return typeof value === "string" ? "str" : "bool";
}

/** JSON with lines, exact. */
export function pretty(text) {
  try {
    return write(parse(text), "  ");
  } catch {
    return text;
  }
}

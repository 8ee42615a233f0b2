// The address of the page holds the whole state: #/screen/what?key=value. A link in a chat shows the same thing.

/** Kept when a person goes to another screen: the space, its branch, and the commit that is read. */
const KEPT = ["space", "branch", "at"];

const encode = (text) => encodeURIComponent(text).replace(/%(3A|2F|40|24|2C|3D|5B|5D)/g, decodeURIComponent);
const decode = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

export function read(hash = location.hash) {
  const text = hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const [path, query] = mark < 0 ? [text, ""] : [text.slice(0, mark), text.slice(mark + 1)];
  const slash = path.indexOf("/");
  const [screen, what] = slash < 0 ? [path, ""] : [path.slice(0, slash), path.slice(slash + 1)];
  return { screen: screen || "overview", what: decode(what), query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The link to a screen. What is undefined or empty in `query` is left out. */
export function to(screen, what = "", query = {}, from = read()) {
  const kept = Object.fromEntries(KEPT.filter((key) => from.query[key]).map((key) => [key, from.query[key]]));
  const all = Object.entries({ ...kept, ...query }).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  const text = all.map(([key, value]) => `${encode(key)}=${encode(value === true ? "1" : value)}`).join("&");
  return `#/${screen}${what ? `/${encode(what)}` : ""}${text ? `?${text}` : ""}`;
}

/** The same screen and thing, with some of the query changed. */
export function changed(query) {
  const now = read();
  return to(now.screen, now.what, { ...now.query, ...query });
}

export function go(link, { replace = false } = {}) {
  if (link === location.hash) return;
  if (replace) {
    history.replaceState(null, "", link);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = link;
}

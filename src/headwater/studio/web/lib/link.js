// The one connection of this tab: questions and their answers, watches with deltas, deeds. It connects again by itself.

const PROTOCOL = "headwater.studio.v1";
const PAINT_MS = 33; // between two deltas, at least
const RETRY_MS = [200, 400, 800, 1500, 3000, 5000];
const SESSION = "headwater-studio-session";

/** What the server refused, with its code. */
export class Trouble extends Error {
  constructor(frame) {
    super(frame.message || "The server refused this.");
    this.code = frame.code ?? "";
    this.path = frame.path ?? "";
    this.frame = frame;
  }
}

export class Link {
  #socket;
  #number = 0;
  #waiting = new Map(); // n -> {resolve, reject, frame}
  #watches = new Map(); // n -> {question, show, fail, mark}
  #tries = 0;
  #secret; // a one-time code or a token: shown once, kept nowhere
  #ended = false;
  #farewell = "";

  /** `onstate(state, facts)`: "connecting", "open" (welcome), "login" (why), "lost", "trouble" (a frame). */
  constructor(onstate) {
    this.onstate = onstate;
    this.state = "connecting";
    addEventListener("visibilitychange", () => this.#visible());
    addEventListener("pagehide", () => this.#socket?.close());
  }

  get isOpen() { return this.state === "open"; }
  get hasSession() { return sessionStorage.getItem(SESSION) !== null; }

  /** `secret`: {code} of the printed link, {token} of a person; else the session of this tab. */
  start(secret) {
    this.#secret = secret;
    this.#ended = false;
    this.#connect();
  }

  /** Ends the session: the login page is next. */
  leave(why) {
    sessionStorage.removeItem(SESSION);
    this.#ended = true;
    this.#socket?.close();
    this.#set("login", { message: why });
  }

  ask(question) {
    return this.#send((n) => ({ t: "ask", n, q: question }));
  }

  /** A deed. Its number goes along, so that after a lost connection it is asked for, never sent twice. */
  act(deed) {
    return this.#send((n) => ({ t: "do", n, deed }));
  }

  /** `show(record, isPartial, frame)` now and whenever the answer may be another. Returns what ends it. */
  watch(question, show, fail = () => {}) {
    const n = (this.#number += 1);
    this.#watches.set(n, { question, show, fail, sent: false });
    this.#sendWatches();
    return () => {
      const { sent } = this.#watches.get(n) ?? {};
      this.#watches.delete(n);
      if (sent) this.#put({ t: "unwatch", n });
    };
  }

  // --- the socket ---

  #connect() {
    const url = new URL("socket", location.href.replace(/[?#].*$/, ""));
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.#socket = new WebSocket(url, PROTOCOL));
    socket.onopen = () => {
      const session = sessionStorage.getItem(SESSION);
      this.#put({ t: "hello", ...(this.#secret ?? (session ? { session } : {})) });
    };
    socket.onmessage = (event) => this.#take(JSON.parse(event.data));
    socket.onclose = (event) => { if (socket === this.#socket) this.#closed(event); };
  }

  #put(frame) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(frame));
  }

  #send(make) {
    const n = (this.#number += 1);
    const frame = make(n);
    return new Promise((resolve, reject) => {
      if (!this.isOpen) {
        reject(new Trouble({ code: "HW405", message: "There is no connection; nothing was done." }));
        return;
      }
      this.#waiting.set(n, { resolve, reject, frame });
      this.#put(frame);
    });
  }

  #take(frame) {
    const { t, n } = frame;
    if (t === "welcome") this.#welcome(frame);
    else if (t === "answer" || t === "delta") this.#answer(frame);
    else if (t === "done") this.#settle(n, (each) => each.resolve(frame.record));
    else if (t === "trouble") this.#trouble(frame);
    else if (t === "gone") { // the server closes the connection, and says why
      this.#farewell = frame.message;
      if (frame.reason === "session" || frame.reason === "revoked") this.leave(frame.message);
    }
  }

  #welcome(frame) {
    if (frame.session) sessionStorage.setItem(SESSION, frame.session);
    this.#secret = undefined;
    this.#tries = 0;
    for (const each of this.#watches.values()) each.sent = false;
    this.#set("open", frame);
    if (document.hidden) this.#put({ t: "hide" });
    this.#sendWatches();
  }

  #sendWatches() {
    if (!this.isOpen || document.hidden) return;
    for (const [n, each] of this.#watches) {
      if (each.sent) continue;
      each.sent = true;
      this.#put({ t: "watch", n, q: each.question, ...(each.mark ? { mark: each.mark } : {}) });
    }
  }

  #answer(frame) {
    const watch = this.#watches.get(frame.n);
    if (!watch) {
      this.onanswer?.(frame);
      this.#settle(frame.n, (each) => each.resolve(frame.record));
      return;
    }
    watch.mark = frame.mark;
    this.onanswer?.(frame);
    if (!frame.same && frame.record !== undefined) watch.show(frame.record, frame.partial === true, frame);
    // The next one may come when this one is painted.
    const began = performance.now();
    requestAnimationFrame(() => setTimeout(() => {
      this.onpaint?.(frame);
      setTimeout(() => this.#watches.has(frame.n) && this.#put({ t: "ok", n: frame.n }), Math.max(PAINT_MS - (performance.now() - began), 0));
    }));
  }

  #trouble(frame) {
    const error = new Trouble(frame);
    const watch = this.#watches.get(frame.n);
    if (watch) { // the server asks again by itself; what was shown is gone, so a later answer must be whole
      watch.mark = undefined;
      watch.fail(error);
    }
    else if (this.#waiting.has(frame.n)) this.#settle(frame.n, (each) => each.reject(error));
    else {
      this.#farewell = error.message;
      this.onstate("trouble", frame);
    }
  }

  #settle(n, how) {
    const found = this.#waiting.get(n);
    this.#waiting.delete(n);
    if (found) how(found);
  }

  #closed(event) {
    for (const [n] of this.#waiting) this.#settle(n, (each) => each.reject(new Trouble({ code: "HW405", message: each.frame.t === "do" ? "The connection ended before the answer; look whether it was done." : "The connection ended before the answer." })));
    if (this.#ended) return;
    if ([4401, 4403, 4408].includes(event.code) || (!this.#tries && this.#secret)) {
      sessionStorage.removeItem(SESSION);
      this.#ended = true;
      this.#set("login", { message: this.#farewell || event.reason });
      return;
    }
    this.#set("lost", { code: event.code, reason: event.reason });
    const wait = RETRY_MS[Math.min(this.#tries, RETRY_MS.length - 1)];
    this.#tries += 1;
    setTimeout(() => this.#ended || this.#connect(), wait * (0.75 + Math.random() / 2));
  }

  #visible() {
    if (!this.isOpen) return;
    this.#put({ t: document.hidden ? "hide" : "show" });
    this.#sendWatches();
  }

  #set(state, facts) {
    this.state = state;
    this.onstate(state, facts);
  }
}

// Parts that several pages have in common.
import { h } from "./dom.js";
import { count, plural } from "./format.js";

const WORDS = {
  ready: "ready", opening: "opening", full: "full", "rate-limited": "rate-limited", paused: "paused", dead: "dead", suspended: "suspended", alive: "alive",
  active: "active", incoming: "incoming", deferred: "deferred", hold: "held", corrupt: "damaged", sent: "sent", bounced: "bounced", pending: "pending",
};
const KIND = {
  ready: "good", alive: "good", sent: "good", active: "good", opening: "calm", incoming: "calm", pending: "calm", full: "busy", "rate-limited": "busy", paused: "busy", deferred: "busy",
  hold: "still", suspended: "still", dead: "bad", bounced: "bad", corrupt: "bad",
};

// badge shows a state by a word and a color.
export const badge = (state) => h("span", { class: `badge ${KIND[state] ?? "calm"}` }, WORDS[state] ?? state);

// empty is what a page shows instead of nothing.
export const empty = (title, text) => h("div", { class: "empty" }, h("p", { class: "strong" }, title), h("p", null, text));

export const card = (title, ...content) => h("section", { class: "card" }, title && h("h2", null, title), content);

// figure is one large number.
export const figure = (label, value, note, kind = "") =>
  h("div", { class: `figure ${kind}` }, h("dt", null, label), h("dd", null, h("span", { class: "number" }, value), note && h("span", { class: "note" }, note)));

// table: columns are [{head, num, hide, cell(row)}]; rows have keys.
export function table(caption, columns, rows, key) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, h("table", null, h("caption", { class: "unseen" }, caption),
    h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: classOf(c) }, c.head)))),
    h("tbody", null, rows.map((row) => h("tr", { "data-key": key(row) }, columns.map((c, i) =>
      i === 0 ? h("th", { scope: "row", class: classOf(c) }, c.cell(row)) : h("td", { class: classOf(c) }, c.cell(row))))))));
}

const classOf = (c) => [c.num && "num", c.hide && "hide", c.wide && "wide"].filter(Boolean).join(" ") || undefined;

// words shows what somebody has said: if it is long, its beginning, and all of it on demand. make makes the element of the text.
const LONG = 280;
export function words(text, make = (t) => h("q", null, t)) {
  if (!text) return null;
  if (text.length <= LONG) return make(text);
  const start = Array.from(text.slice(0, LONG)).slice(0, LONG - 80).join("");
  return h("details", { class: "long" },
    h("summary", { onclick: (e) => { e.currentTarget.parentNode.dataset.mine = "1"; } }, h("span", { class: "start" }, start + " …"), h("span", { class: "all" }, `Show all ${count(text.length)} characters`), h("span", { class: "less" }, "Show less")),
    make(text));
}
export const said = (text) => words(text, (t) => h("span", { class: "said" }, t));

export const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter(([, v]) => v !== undefined && v !== null && v !== "" && v !== false).map(([k, v]) => [h("dt", null, k), h("dd", null, v)]));

export const siteLink = (name, text) => h("a", { href: "#/sites/" + encodeURIComponent(name) }, text ?? name);
export const messageLink = (id) => h("a", { class: "code", href: "#/messages/" + id }, id);

export const flowName = (f) => [f.tenant, f.flow].filter((x) => x).join(" / ") || "mail without a flow";

// siteName shows a nexthop so that it can break.
export const siteName = (text) => text.split(/(?<=[.,;:])/).flatMap((part) => [part, h("wbr")]);

export const outcomes = (of) => h("span", { class: "trio" },
  h("span", { class: "sent", title: "sent" }, count(of.sent)), " / ", h("span", { class: "deferred", title: "deferred" }, count(of.deferred)), " / ", h("span", { class: "bounced", title: "bounced" }, count(of.bounced)));

export const people = (n) => plural(n, "recipient");

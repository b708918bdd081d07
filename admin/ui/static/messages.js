// Search for messages, and orders for what was found.
import { get } from "./api.js";
import { h } from "./dom.js";
import { age, bytes, count, sender, wait } from "./format.js";
import { orders } from "./order.js";
import { badge, card, empty, messageLink, table } from "./parts.js";

const FIELDS = [["sender", "Sender", "*@example.com"], ["recipient", "Recipient", "jane@example.net"], ["domain", "Domain", "example.net"], ["error", "Last reply", "greylisted"], ["site", "Site", ""], ["tenant", "Tenant", ""], ["flow", "Flow", ""], ["class", "Class", "bulk"], ["older", "Older than", "2h"], ["younger", "Younger than", "1d"]];
const LISTS = new Set(["sender", "recipient", "domain", "error", "site", "tenant", "flow", "class", "area"]);
const AREAS = [["", "anywhere"], ["incoming", "incoming"], ["deferred", "deferred"], ["hold", "held"], ["corrupt", "damaged"]];
const FEW = 4; // fields that are always shown

function filterOf(search) {
  const filter = {};
  for (const [name, value] of search) {
    if (!value || name === "cursor") continue;
    filter[name === "area" ? "areas" : name] = LISTS.has(name) ? [value] : value;
  }
  return filter;
}

export default {
  title: "Messages",
  async load(_params, search, signal) {
    const conditions = Object.fromEntries(search);
    delete conditions.cursor;
    const list = [];
    let cursor = search.get("cursor") ?? undefined;
    // A page may be empty and not be the last one.
    for (let i = 0; i < 20; i++) {
      const page = await get("/v1/messages", { ...conditions, limit: 50, recipients: 1, cursor }, signal);
      list.push(...page.messages);
      cursor = page.next;
      if (!cursor || list.length) break;
    }
    return { list, next: cursor };
  },
  render({ list, next }, ctx) {
    const { search } = ctx;
    const filter = filterOf(search);
    const more = FIELDS.slice(FEW).some(([name]) => search.get(name));
    const input = ([name, label, hint]) => h("label", { class: "field" }, h("span", null, label), h("input", { name, value: search.get(name) ?? "", placeholder: hint, autocomplete: "off", spellcheck: "false" }));
    const submit = (event) => {
      event.preventDefault();
      const q = new URLSearchParams([...new FormData(event.currentTarget)].map(([k, v]) => [k, v.trim()]).filter(([, v]) => v));
      const id = q.get("id");
      if (id) location.hash = "#/messages/" + id;
      else if ("#/messages?" + q === location.hash) ctx.refresh();
      else location.hash = "#/messages?" + q;
    };
    return [
      h("form", { class: "card search", role: "search", onsubmit: submit },
        h("div", { class: "fields" }, h("label", { class: "field" }, h("span", null, "Queue ID"), h("input", { name: "id", placeholder: "6C34ED1CB5G00", pattern: "\\s*[0-9A-Za-z]{13}\\s*", title: "13 letters and digits", autocomplete: "off", spellcheck: "false" })), FIELDS.slice(0, FEW).map(input),
          h("label", { class: "field" }, h("span", null, "Where"), h("select", { name: "area", value: search.get("area") ?? "" }, AREAS.map(([v, word]) => h("option", { value: v, selected: (search.get("area") ?? "") === v }, word))))),
        h("details", { open: more }, h("summary", { onclick: (e) => { e.currentTarget.parentNode.dataset.mine = "1"; } }, "More conditions"), h("div", { class: "fields" }, FIELDS.slice(FEW).map(input))),
        h("div", { class: "buttons" }, h("a", { class: "button", href: "#/messages" }, "Clear"), h("button", { class: "primary", type: "submit" }, "Search")),
        h("p", { class: "hint" }, "A star stands for any text, /…/ is a regular expression. All conditions must be met.")),
      card(null, list.length ? table("Messages", [
        { head: "Message", cell: (m) => messageLink(m.queue_id) }, { head: "State", cell: (m) => badge(m.state) },
        { head: "From, to", wide: true, cell: (m) => [sender(m.sender), h("span", { class: "sub" }, m.recipients?.[0]?.address ?? "", m.recipients_total > 1 && ` and ${count(m.recipients_total - 1)} more`)] },
        { head: "Age", num: true, cell: (m) => age(m.arrived) }, { head: "Next", num: true, hide: true, cell: (m) => (m.wait === "backoff" ? wait(m.due) : m.wait) },
        { head: "Size", num: true, hide: true, cell: (m) => bytes(m.size) }, { head: "Tries", num: true, hide: true, cell: (m) => m.attempts },
        { head: "Last reply", hide: true, wide: true, cell: (m) => h("span", { class: "clip", title: m.reason ?? "" }, m.reason ?? "") },
      ], list, (m) => m.queue_id) : empty("No message meets these conditions.", next ? "The search has looked at many messages; go on below." : Object.keys(filter).length ? "Delivered messages are not in the queue any more; the log has them." : "The queue is empty: all mail has been delivered."),
        next && h("p", { class: "more" }, h("a", { class: "button", href: "#/messages?" + new URLSearchParams([...Object.entries(Object.fromEntries(search)).filter(([k]) => k !== "cursor"), ["cursor", next]]) }, "Next page"))),
      Object.keys(filter).length > 0 && list.length > 0 && ctx.operates && h("section", { class: "card" }, h("h2", null, "All messages that meet these conditions"), orders(ctx, ["retry", "hold", "release", "bounce", "drop"], filter, "all that was found")),
    ];
  },
};

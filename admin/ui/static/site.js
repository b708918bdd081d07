// One destination: its window and what has moved it, hosts, connections, ages, and the flows that share it.
import { get } from "./api.js";
import { bars, line, meter } from "./chart.js";
import { h } from "./dom.js";
import { age, brief, clock, count, moment, plural, sender, span, wait } from "./format.js";
import { suspend } from "./order.js";
import { badge, card, empty, facts, figure, flowName, messageLink, said, siteName, table, words } from "./parts.js";

// The bounds of qshape, in minutes.
const AGES = [5, 10, 20, 40, 80, 160, 320, 640, 1280];

const WHY = { new: "came into core", grew: "grew", shrank: "shrank", died: "died", revived: "revived", rule: "reply rule" };

// mailOf is the condition on messages for a nexthop.
function mailOf(name) {
  const nexthop = name.slice(name.indexOf(":") + 1);
  return /^[\w.-]+$/.test(nexthop) ? { domain: [nexthop] } : { site: [name] };
}

// orNull is null where there is nothing: history ends, and a site leaves core.
const orNull = (promise) => promise.catch((error) => { if (error.status === 404 || error.status === 422) return null; throw error; });

export default {
  title: ({ name }) => name.slice(name.indexOf(":") + 1),
  every: 2000,
  async load({ name }, search, signal) {
    const step = search.get("range") === "2h" ? "10s" : "1s";
    const at = encodeURIComponent(name);
    const [detail, history, mail, flows, explained] = await Promise.all([
      orNull(get("/v1/destinations/" + at, { limit: 50 }, signal)), orNull(get("/v1/live/sites/" + at, { step }, signal)), orNull(get("/v1/messages", { ...mailOf(name), limit: 500 }, signal)),
      get("/v1/flows", { limit: 200 }, signal), orNull(get("/v1/explain", { destination: name }, signal)),
    ]);
    if (!detail && !history) throw Object.assign(new Error("This destination is not in core: there is no mail for it, and it has no connections."), { status: 404 });
    return { detail, history, mail, flows: flows.flows.filter((f) => f.destinations?.some((d) => d.name === name)), explained, step };
  },
  render({ detail: d, history, mail, flows, explained, step }, ctx) {
    const name = ctx.params.name;
    const base = "#/sites/" + encodeURIComponent(name);
    return [
      h("div", { class: "actions" }, h("span", { class: "sub" }, "transport ", h("a", { href: "#/transports/" + name.split(":")[0] }, name.split(":")[0])), d && badge(d.suspended ? "suspended" : d.state),
        ctx.operates && h("button", { type: "button", onclick: () => suspend(ctx, "site", { site: name.slice(name.indexOf(":") + 1), destination: name, transport: name.slice(0, name.indexOf(":")) }) }, "Suspend …")),
      d?.reason && h("div", { class: "banner" }, words(d.reason, (t) => h("span", null, t)), d.until && ` It is tried again ${wait(d.until)}.`),
      d && h("dl", { class: "figures" }, figure("Window", count(d.window), d.window_limit ? `limit ${d.window_limit}` : "no limit"), figure("Busy", count(d.busy), "transactions"),
        figure("Connections", count(d.connections), d.connecting ? `${d.connecting} opening` : "open"), figure("Waiting", count(d.todo), plural(d.recipients, "recipient")), figure("Oldest", d.oldest ? brief((Date.now() - new Date(d.oldest)) / 1000) : "–", d.oldest ? "waiting in core" : "nothing waits")),
      card(h("span", { class: "row" }, "Window", h("span", { class: "switch" }, h("a", { href: base, "aria-current": step === "1s" ? "true" : undefined }, "5 minutes"), h("a", { href: base + "?range=2h", "aria-current": step === "10s" ? "true" : undefined }, "2 hours"))),
        history?.at.length ? [line({ at: history.at, show: count, label: `Window of ${name}, now ${history.window.at(-1)}`, series: [{ name: "window", kind: "in", values: history.window, stepped: true, filled: true }, { name: "busy", kind: "sent", values: history.busy, stepped: true }],
          marks: history.moves.map((m) => ({ at: new Date(m.at) / 1000, y: m.to, kind: m.cause, text: `${clock(m.at)} ${m.from} → ${m.to}: ${WHY[m.cause]}. ${m.text ?? ""}` })) }),
        h("ol", { class: "moves" }, [...history.moves].reverse().slice(0, 8).map((m) => h("li", { "data-key": m.at }, h("time", null, clock(m.at)), h("span", { class: `dot ${m.cause}` }), h("b", null, `${m.from} → ${m.to}`), " ", WHY[m.cause], said(m.text))))]
          : empty("There is no history yet.", "It begins when the destination comes into core.")),
      d?.todo > 0 && explained?.parts?.length > 0 && card("Why its mail waits", explained.parts.slice(0, 3).map((p) => h("div", { class: "explain" }, h("p", null, h("code", null, p.code), " ", p.text, p.at && ` · ${wait(p.at)}`), p.rule && h("p", { class: "sub" }, h("code", null, p.rule.key), p.rule.value && ` = ${p.rule.value}`, p.rule.origin && ` (${p.rule.origin})`)))),
      h("div", { class: "pair" },
        card("Hosts", d?.host_list.length ? table("Hosts", [{ head: "Host", wide: true, cell: (x) => [siteName(x.name ?? x.address), x.name && h("span", { class: "sub" }, x.address)] }, { head: "State", cell: (x) => [x.state, x.last_failure && h("span", { class: "sub clip", title: x.last_failure.reply }, x.last_failure.reply)] },
          { head: "Conn.", num: true, cell: (x) => x.connections }, { head: "RTT", num: true, cell: (x) => (x.rtt ? `${(x.rtt * 1000).toFixed(1)} ms` : "–") }], d.host_list, (x) => x.address + x.source) : empty("No host is known.", "They are looked up when there is mail for them.")),
        card("Connections", d?.connection_list.length ? table("Connections", [{ head: "No.", cell: (x) => x.id }, { head: "State", cell: (x) => x.state }, { head: "In flight", num: true, cell: (x) => x.in_flight }, { head: "Carried", num: true, cell: (x) => count(x.carried) }, { head: "Age", num: true, cell: (x) => age(x.made) }], d.connection_list.slice(0, 12), (x) => String(x.id)) : empty("There is no connection.", "They are opened when mail waits and the window has room."))),
      card("Last replies", replies(d, history)),
      h("div", { class: "pair" },
        card("Age of waiting mail, in minutes", mail?.messages.length ? ages(mail) : empty("No mail waits for it.", "Waiting mail is counted here by age, with the bounds of qshape.")),
        card("Flows that share it", flows.length ? table("Flows that share it", [{ head: "Flow", wide: true, cell: (f) => [flowName(f), h("span", { class: "sub" }, f.class)] },
          { head: "Waiting", num: true, cell: (f) => count(at(f, name).waiting) }, { head: "Busy", num: true, cell: (f) => count(at(f, name).busy) },
          { head: "Share", cell: (f) => (at(f, name).share_permille ? h("span", { class: "share" }, meter(at(f, name).share_permille, 1000, "share"), `${(at(f, name).share_permille / 10).toFixed(0)} %`) : "room for all") }], flows, (f) => f.class + f.tenant + f.flow) : empty("No flow has mail waiting here.", "If several had, each would get its fair share of the window."))),
      mail?.messages.length > 0 && card(h("span", { class: "row" }, "Waiting messages", h("a", { href: "#/messages?" + new URLSearchParams(Object.entries(mailOf(name)).map(([k, v]) => [k, v[0]])) }, "search")),
        table("Waiting messages", [{ head: "Message", cell: (m) => messageLink(m.queue_id) }, { head: "Sender", wide: true, cell: (m) => sender(m.sender) }, { head: "Age", num: true, cell: (m) => age(m.arrived) }, { head: "Attempts", num: true, cell: (m) => m.attempts }], mail.messages.slice(0, 8), (m) => m.queue_id)),
    ];
  },
};

const at = (f, name) => f.destinations.find((d) => d.name === name);

// replies are the last words of hosts and of connections that have ended.
function replies(d, history) {
  const list = [...(d?.ended ?? []).map((e) => ({ at: e.at, host: e.host, text: e.reply || e.text, note: e.reply ? e.text : "" })),
    ...(d?.host_list ?? []).filter((x) => x.last_failure).map((x) => ({ at: x.last_failure.at, host: x.name ?? x.address, text: x.last_failure.reply, note: "connection failed" })),
    ...(history?.moves ?? []).filter((m) => /^[45]\d\d /.test(m.text ?? "")).map((m) => ({ at: m.at, host: "", text: m.text, note: `the window went from ${m.from} to ${m.to}` }))]
    .sort((a, b) => new Date(b.at) - new Date(a.at)).slice(0, 8);
  if (!list.length) return empty("No connection has ended lately.", "What a server says at the end is shown here word for word.");
  return h("ul", { class: "replies" }, list.map((x, i) => h("li", { "data-key": x.at + i }, h("time", null, moment(x.at)), x.host && h("span", { class: "code" }, x.host), words(x.text), x.note && h("span", { class: "sub" }, x.note))));
}

function ages(page) {
  const minutes = page.messages.map((m) => (Date.now() - new Date(m.arrived)) / 60000);
  const list = [...AGES, Infinity].map((bound, i) => {
    const from = i ? AGES[i - 1] : 0;
    const n = minutes.filter((m) => m >= from && m < bound).length;
    return { label: bound === Infinity ? "1280+" : String(bound), value: n, title: `${n} between ${span(from * 60)} and ${bound === Infinity ? "ever" : span(bound * 60)}` };
  });
  return [bars(list, `${plural(page.messages.length, "message")} by age`), page.next && h("p", { class: "hint" }, "Of the first 500 messages.")];
}

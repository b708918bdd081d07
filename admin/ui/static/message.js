// One message: why it waits, its timeline, its recipients and its header.
import { get, head } from "./api.js";
import { h } from "./dom.js";
import { age, bytes, count, moment, plural, sender, wait } from "./format.js";
import { orders } from "./order.js";
import { badge, card, empty, facts, said, siteLink, table, words } from "./parts.js";

const headers = new Map(); // by ID, of the message that is open

export default {
  title: ({ id }) => `Message ${id}`,
  every: 5000,
  async load({ id }, _search, signal) {
    const [detail, explained] = await Promise.all([get("/v1/messages/" + encodeURIComponent(id), { limit: 200 }, signal), get("/v1/explain", { id }, signal).catch(() => null)]);
    return { detail, explained };
  },
  render({ detail: d, explained }, ctx) {
    return [
      h("div", { class: "actions" }, badge(d.state), h("span", { class: "sub" }, d.wait_reason?.text ?? ""),
        orders(ctx, d.area === "hold" ? ["release", "reroute", "requeue", "bounce", "drop"] : d.area === "corrupt" ? ["release", "drop"] : ["retry", "hold", "reroute", "requeue", "bounce", "drop"], { ids: [d.queue_id] }, `message ${d.queue_id}`)),
      explained?.parts?.length > 0 && card("Why it is here", explained.parts.map((p) => h("div", { class: "explain" },
        h("p", null, p.place && [siteLink(p.place), " · "], h("code", null, p.code), " ", p.text),
        facts([["It will go", p.at && `${wait(p.at)} (${moment(p.at)})${p.basis ? ", " + p.basis : ""}`], ["Bound by", p.rule && [h("code", null, p.rule.key), p.rule.value ? ` = ${p.rule.value}` : "", p.rule.origin ? ` (${p.rule.origin})` : ""]], ["Ahead", p.ahead?.length && h("ul", null, p.ahead.map((x) => h("li", null, x)))],
          ["Said", p.replies?.length && h("ul", { class: "replies" }, p.replies.map((r) => h("li", null, words(r.reply), h("span", { class: "sub" }, r.by, " · ", r.recipient))))], ["What helps", p.remedies?.length && h("ul", null, p.remedies.map((x) => h("li", null, x)))]]))),
        explained.doubtful?.length > 0 && facts([["In doubt", h("ul", null, explained.doubtful.map((x) => h("li", null, doubt(x), x.recipient && `, for ${x.recipient}`, x.next && `; ${x.next}`)))]])),
      card("Timeline", h("ol", { class: "timeline" }, timeline(d).map((e) => h("li", { class: e.kind, "data-key": e.at + e.text }, h("time", null, moment(e.at)), h("span", { class: "dot " + e.kind }), h("span", { class: "grow" }, e.text, words(e.said)))))),
      h("div", { class: "pair" },
        card("Envelope", facts([["From", sender(d.sender)], ["Recipients", `${count(d.recipients_total)}, ${count(d.recipients_waiting)} waiting`], ["Size", bytes(d.size)], ["Class", d.class], ["Tenant", d.tenant], ["Flow", d.flow], ["Received from", [d.client_address, d.client_helo && ` (${d.client_helo})`, d.protocol && ` by ${d.protocol}`].filter(Boolean).join("") || undefined],
          ["Attempts", count(d.attempts)], ["Requeued from", d.requeued_from], ["Asked for", [d.tls_request && `TLS ${d.tls_request}`, d.smtputf8 && "SMTPUTF8", d.env_id && `ENVID ${d.env_id}`, d.ret && `RET ${d.ret}`].filter(Boolean).join(", ") || undefined]])),
        card("Header", header(d, ctx))),
      card(`Recipients`, d.all_recipients.length ? table("Recipients", [{ head: "Recipient", wide: true, cell: (r) => r.address }, { head: "Result", cell: (r) => badge(r.result) }, { head: "When", num: true, hide: true, cell: (r) => (r.at ? age(r.at) + " ago" : "–") }, { head: "Reply", wide: true, cell: (r) => [said(r.reply), r.route && h("span", { class: "sub" }, `${r.route.by || "an operator"} has it go to ${r.route.to}${r.route.reason ? ": " + r.route.reason : ""}`), (r.by || r.put_off) && h("span", { class: "sub" }, r.put_off ?? r.by), doubts(r)] }], d.all_recipients, (r) => String(r.index)) : empty("Its recipients cannot be read.", d.damage ?? ""),
        d.next && h("p", { class: "hint" }, `These are the first ${count(d.all_recipients.length)} of ${count(d.recipients_total)}; posthaste queue show ${d.queue_id} shows all.`)),
    ];
  },
};

// doubts are the attempts after which it is unknown whether the host has the message.
const doubt = (x) => `${x.host} may have the message: no reply to its content, ${x.times === 1 ? "once" : `${count(x.times)} times`}`;
const doubts = (r) => r.doubtful?.map((x) => h("span", { class: "sub" }, doubt(x)));

function header(d, ctx) {
  const text = headers.get(d.queue_id);
  if (text !== undefined) return h("pre", { tabindex: "0" }, text);
  return h("button", { type: "button", onclick: async () => {
    headers.clear();
    headers.set(d.queue_id, "Loading …");
    ctx.redraw();
    headers.set(d.queue_id, await head(d.queue_id).catch((error) => error.message));
    ctx.redraw();
  } }, "Show the header");
}

// timeline is what has happened, and what will, as far as the queue knows: outcomes at the same second with the
// same words are one event.
function timeline(d) {
  const events = [{ at: d.arrived, kind: "new", text: ["arrived", d.client_address && " from ", d.client_address, ` with ${plural(d.recipients_total, "recipient")}`] }];
  if (d.history_missing) {
    const why = new Date(d.arrived) < new Date(d.history_since) ? "before the start of the daemon" : "forgotten in favor of later ones";
    events.push({ at: new Date(d.arrived) < new Date(d.history_since) ? d.history_since : d.arrived, kind: "gap", text: `${plural(d.history_missing, "attempt")} ${why}: not shown; the log has ${d.history_missing === 1 ? "it" : "them"}` });
  }
  if (d.history_more) events.push({ at: d.history[0].at, kind: "gap", text: `${plural(d.history_more, "outcome")} before these` });
  for (const a of d.history) {
    events.push({ at: a.at, kind: a.result, said: a.reply, text: [`attempt ${a.number}: ${a.result}: `, a.recipient, a.more > 0 && ` and ${count(a.more)} more`, a.host && " at ", a.host, a.stage && `, after ${a.stage}`, a.source && ", from ", a.source] });
  }
  // The queue keeps the last outcome of each recipient, also of those that have the message and of attempts before a restart.
  const known = (r) => d.history.some((a) => a.result === r.result && Math.abs(new Date(a.at) - new Date(r.at)) < 2e3);
  const groups = new Map();
  for (const r of d.all_recipients) {
    if (!r.at || r.result === "pending" || known(r)) continue;
    const key = [r.at.slice(0, 19), r.result, r.reply, r.by].join(" ");
    const g = groups.get(key) ?? { at: r.at, result: r.result, said: r.reply, by: r.by, names: [] };
    g.names.push(r.address);
    groups.set(key, g);
  }
  for (const g of groups.values()) events.push({ at: g.at, kind: g.result, said: g.said, text: [`${g.result}: `, g.names.length === 1 ? g.names[0] : plural(g.names.length, "recipient"), g.by && " at ", g.by] });
  if (d.last_attempt && ![...groups.values(), ...d.history].some((g) => Math.abs(new Date(g.at) - new Date(d.last_attempt)) < 60e3)) events.push({ at: d.last_attempt, kind: "deferred", text: `attempt ${d.attempts}: put off` });
  if (d.state === "active") events.push({ at: new Date().toISOString(), kind: "now", text: "now: in core" });
  if (d.due && d.state === "deferred") events.push({ at: d.due, kind: "next", text: `attempt ${d.attempts + 1}, ${wait(d.due)}` });
  if (d.held_until) events.push({ at: d.held_until, kind: "next", text: d.wait === "date" ? "its sender has it kept until then" : "it is removed then" });
  if (d.deliver_by) events.push({ at: d.deliver_by, kind: "next", text: "its sender wants it delivered by then" });
  return events.sort((a, b) => new Date(a.at) - new Date(b.at));
}

// What goes in and out, what waits, and what needs attention.
import { get } from "./api.js";
import { line } from "./chart.js";
import { h } from "./dom.js";
import { brief, bytes, count, moment, plural, rate } from "./format.js";
import { badge, card, empty, figure, outcomes, siteLink, siteName, table } from "./parts.js";

export default {
  title: "Overview",
  live: true,
  every: 5000,
  async load(_params, search, signal) {
    const step = search.get("range") === "6h" ? "10s" : "1s";
    const [history, status] = await Promise.all([get("/v1/live/history", { step }, signal), get("/v1/status", { destinations: 0 }, signal)]);
    return { history, status, step };
  },
  render({ history, status, step }, { sample }) {
    const t = sample.totals;
    const queued = t.spool ? t.spool.incoming + t.spool.deferred : undefined;
    const smooth = (list) => blur(list, step === "1s" ? 5 : 1);
    return [
      (status.alarms ?? []).map((a) => h("div", { class: "banner", role: "alert" }, h("b", null, a.kind), " · ", a.text, " (", moment(a.at), ")")),
      h("dl", { class: "figures" },
        figure("In", rate(t.arrived_rate), "messages/s"),
        figure("Out", rate(t.rates.sent), "recipients/s", "sent"),
        figure("Deferred", rate(t.rates.deferred), "recipients/s", "deferred"),
        figure("Bounced", rate(t.rates.bounced), "recipients/s", "bounced"),
        figure("Waiting", count(queued), queued === undefined ? "being counted" : `${count(t.spool.deferred)} deferred`),
        figure("Oldest", t.spool?.oldest ? brief((new Date(sample.at) - new Date(t.spool.oldest)) / 1000) : "–", t.spool?.oldest ? "since it arrived" : "nothing waits"),
        figure("Connections", count(t.connections), t.connecting ? `${count(t.connecting)} opening` : `${count(t.busy)} under way`),
        figure("Disk free", bytes(t.free_bytes), t.headroom_bytes < 0 ? "mail is refused" : `${bytes(t.headroom_bytes)} usable`, t.headroom_bytes < 0 ? "bounced" : "")),
      card(h("span", { class: "row" }, "Throughput", h("span", { class: "switch" }, h("a", { href: "#/", "aria-current": step === "1s" ? "true" : undefined }, "10 minutes"), h("a", { href: "#/?range=6h", "aria-current": step === "10s" ? "true" : undefined }, "6 hours"))),
        line({ at: history.at, unit: "/s", show: rate, label: `Mail per second: ${rate(t.arrived_rate)} in, ${rate(t.rates.sent)} sent, ${rate(t.rates.deferred)} deferred now`,
          series: [{ name: "in", kind: "in", values: smooth(history.arrived) }, { name: "sent", kind: "sent", values: smooth(history.sent), filled: true }, { name: "deferred", kind: "deferred", values: smooth(history.deferred) }, { name: "bounced", kind: "bounced", values: smooth(history.bounced) }] })),
      h("div", { class: "pair" },
        card("Waiting mail", line({ at: history.at, show: count, height: 150, half: true, label: `${count(queued)} messages wait`, series: [{ name: "in the queue", kind: "in", values: history.queued.map((v) => Math.max(0, v)), filled: true }] })),
        card("Age of the oldest message", line({ at: history.at, show: brief, height: 150, half: true, label: "Age of the oldest message over time", series: [{ name: "oldest", kind: "deferred", values: history.oldest, filled: true }] }))),
      h("div", { class: "pair" },
        card(h("span", { class: "row" }, "Busiest sites", h("a", { href: "#/sites" }, `all ${count(sample.sites_known)}`)), sample.sites.length ? table("Busiest sites", [
          { head: "Site", wide: true, cell: (x) => siteLink(x.name, siteName(x.nexthop)) }, { head: "State", cell: (x) => badge(x.state) },
          { head: "Waiting", num: true, cell: (x) => count(x.waiting) }, { head: "Sent/s", num: true, cell: (x) => rate(x.rates.sent) },
        ], sample.sites.slice(0, 6), (x) => x.name) : empty("No mail is on its way.", "Sites appear here as soon as mail for them comes in.")),
        card("Since the start", h("dl", { class: "facts" },
          h("dt", null, "Messages in"), h("dd", null, count(t.arrived)), h("dt", null, "Recipients sent / deferred / bounced"), h("dd", null, outcomes(t)), h("dt", null, "Attempts"), h("dd", null, count(t.attempts)),
          h("dt", null, "Messages expired"), h("dd", null, count(t.expired)), h("dt", null, "Preemptions"), h("dd", null, count(t.preemptions)), h("dt", null, "Held"), h("dd", null, count(t.spool?.hold)),
          h("dt", null, "Clients connected"), h("dd", null, count(t.inbound_sessions)), h("dt", null, "Version"), h("dd", null, status.version)))),
    ];
  },
};

// blur averages over n values before each.
function blur(list, n) {
  let sum = 0;
  return list.map((v, i) => {
    sum += v - (i >= n ? list[i - n] : 0);
    return Math.max(0, sum / Math.min(i + 1, n));
  });
}

// Flows and tenants: who has how much waiting, and how long it waits.
import { get } from "./api.js";
import { meter } from "./chart.js";
import { h } from "./dom.js";
import { count, rate, span } from "./format.js";
import { suspend } from "./order.js";
import { badge, card, empty, siteLink, table } from "./parts.js";

export default {
  title: "Flows and tenants",
  live: true,
  every: 3000,
  load: async (_params, _search, signal) => ({ page: await get("/v1/flows", { limit: 200 }, signal), quotas: await get("/v1/quotas", { limit: 20 }, signal).catch(() => null) }),
  render({ page, quotas }, ctx) {
    const rates = new Map(ctx.sample.flows.map((f) => [f.class + "\0" + f.tenant + "\0" + f.flow, f.rate]));
    const tenants = new Map();
    for (const f of page.flows) {
      const t = tenants.get(f.class + "\0" + f.tenant) ?? { class: f.class, tenant: f.tenant, flows: 0, messages: 0, waiting: 0, busy: 0, suspended: f.suspended };
      t.flows++;
      for (const key of ["messages", "waiting", "busy"]) t[key] += f[key];
      tenants.set(f.class + "\0" + f.tenant, t);
    }
    const all = [...tenants.values()].sort((a, b) => b.waiting - a.waiting);
    const most = Math.max(1, ...all.map((t) => t.waiting + t.busy));
    if (!page.flows.length) return empty("No flow has mail in core.", "A flow is what a tenant sends under one name, by default one envelope sender. It appears with its first message.");
    const used = quotas?.quotas.flatMap((q) => q.uses.filter((u) => u.of).map((u) => ({ ...u, name: [q.kind, q.tenant, q.name].filter(Boolean).join(" ") }))) ?? [];
    return [
      card("Tenants", table("Tenants", [
        { head: "Tenant", wide: true, cell: (t) => [t.tenant || "–", h("span", { class: "sub" }, t.class)] }, { head: "", cell: (t) => [t.suspended && badge("suspended"), meter(t.waiting + t.busy, most, `${t.waiting + t.busy} waiting or under way`)] },
        { head: "Flows", num: true, hide: true, cell: (t) => count(t.flows) }, { head: "Messages", num: true, hide: true, cell: (t) => count(t.messages) }, { head: "Waiting", num: true, cell: (t) => count(t.waiting) }, { head: "Busy", num: true, cell: (t) => count(t.busy) },
        ...(ctx.operates ? [{ head: h("span", { class: "unseen" }, "Order"), cell: (t) => t.tenant && h("button", { class: "quiet", type: "button", "aria-label": `Suspend tenant ${t.tenant}`, onclick: () => suspend(ctx, "tenant", { tenant: t.tenant, class: t.class }) }, "Suspend …") }] : []),
      ], all, (t) => t.class + t.tenant)),
      card("Flows", table("Flows", [
        { head: "Flow", wide: true, cell: (f) => [f.flow || "–", h("span", { class: "sub" }, f.tenant)] }, { head: "Waiting", num: true, cell: (f) => count(f.waiting) }, { head: "Busy", num: true, cell: (f) => count(f.busy) },
        { head: "Starts/s", num: true, cell: (f) => rate(rates.get(f.class + "\0" + f.tenant + "\0" + f.flow)) }, { head: "Wait, median / 99 %", num: true, hide: true, cell: (f) => (f.wait_p99_ms ? `${ms(f.wait_p50_ms)} / ${ms(f.wait_p99_ms)}` : "–") },
        { head: "Where it waits", hide: true, wide: true, cell: (f) => (f.destinations ?? []).slice(0, 2).map((d) => h("span", { class: "line" }, siteLink(d.name, d.name.slice(d.name.indexOf(":") + 1)), ` ${count(d.waiting)}`, d.share_permille ? `, share ${(d.share_permille / 10).toFixed(0)} %` : "")) },
      ], page.flows, (f) => f.class + f.tenant + "/" + f.flow)),
      used.length > 0 && card("Quotas", table("Quotas", [{ head: "Of", cell: (q) => q.name }, { head: "Limit", cell: (q) => h("code", null, q.limit) }, { head: "", cell: (q) => meter(q.used, q.of, `${q.used} of ${q.of}`, q.used >= q.of ? "bad" : "") }, { head: "Used", num: true, cell: (q) => `${count(q.used)} / ${count(q.of)}` }], used.slice(0, 20), (q) => q.name + q.limit)),
    ];
  },
};

const ms = (n) => (n === undefined ? "–" : n < 1000 ? `${n} ms` : span(n / 1000));

// All destinations in core: state, window, and what waits.
import { get } from "./api.js";
import { sparkline } from "./chart.js";
import { h } from "./dom.js";
import { age, count, plural, rate } from "./format.js";
import { badge, card, empty, siteLink, siteName, table } from "./parts.js";

export default {
  title: "Sites",
  live: true,
  every: 5000,
  load: (_params, _search, signal) => get("/v1/live", { sites: 256, flows: 0, trend: true }, signal),
  render(data, { sample, search, redraw }) {
    const trends = new Map(data.sites.map((x) => [x.name, x.trend]));
    const text = (search.get("q") ?? "").toLowerCase();
    const only = search.get("state") ?? "";
    const source = sample.sites_known > sample.sites.length ? data.sites : sample.sites;
    const list = source.filter((x) => x.name.toLowerCase().includes(text) && (!only || x.state === only));
    const to = (name, value) => {
      value ? search.set(name, value) : search.delete(name);
      history.replaceState(null, "", "#/sites" + (search.size ? "?" + search : ""));
      redraw();
    };
    return [
      h("div", { class: "filters" }, h("label", { class: "field" }, h("span", null, "Find"), h("input", { type: "search", value: search.get("q") ?? "", placeholder: "example.net", oninput: (e) => to("q", e.target.value) })),
        h("div", { class: "chips", role: "group", "aria-label": "State" }, h("button", { type: "button", "aria-pressed": String(!only), onclick: () => to("state", "") }, `all ${count(sample.sites_known)}`),
          Object.entries(sample.states).map(([state, n]) => h("button", { type: "button", "data-key": state, "aria-pressed": String(only === state), onclick: () => to("state", only === state ? "" : state) }, `${state} ${count(n)}`)))),
      card(null, list.length ? table("Sites", [
        { head: "Site", wide: true, cell: (x) => [siteLink(x.name, siteName(x.nexthop)), h("span", { class: "sub" }, x.transport)] },
        { head: "State", cell: (x) => [badge(x.state), x.reason && h("span", { class: "sub clip", title: x.reason }, x.reason)] },
        { head: "Window, 5 min", hide: true, cell: (x) => h("span", { class: "trend" }, sparkline(trends.get(x.name), `window of ${x.nexthop}, now ${x.window}`), h("b", null, x.window)) },
        { head: "Busy", num: true, cell: (x) => count(x.busy) }, { head: "Waiting", num: true, cell: (x) => count(x.waiting) },
        { head: "Oldest", num: true, hide: true, cell: (x) => age(x.oldest, new Date(sample.at)) },
        { head: "Sent/s", num: true, cell: (x) => rate(x.rates.sent) }, { head: "Deferred/s", num: true, hide: true, cell: (x) => rate(x.rates.deferred) },
      ], list, (x) => x.name) : empty(text || only ? "No site meets these conditions." : "No mail is on its way.", text || only ? "Clear the search, or choose another state." : "A site appears as soon as mail for it comes into core, and stays for a while after its last connection.")),
      sample.sites_known > 256 && h("p", { class: "hint" }, `These are the 256 with the most waiting of ${plural(sample.sites_known, "site")}. posthaste queue destinations lists all.`),
    ];
  },
};

// What operators and rules on replies have suspended.
import { get } from "./api.js";
import { h } from "./dom.js";
import { age, count, moment, plural, wait } from "./format.js";
import { resume, suspend } from "./order.js";
import { card, empty, said, table } from "./parts.js";

const AT_ONCE = 50;

const link = (search, name, value) => {
  const q = new URLSearchParams([...search].filter(([k]) => k !== "cursor" && k !== name));
  if (value) q.set(name, value);
  return "#/suspensions" + (q.size ? "?" + q : "");
};

export default {
  title: "Suspensions",
  every: 3000,
  load(_params, search, signal) {
    const text = search.get("q");
    const conditions = { value: text && `*${text}*`, scope: search.get("scope") };
    return Promise.all([get("/v1/suspensions", { ...conditions, limit: AT_ONCE, cursor: search.get("cursor") }, signal), get("/v1/suspensions", { value: conditions.value, limit: 1 }, signal)]).then(([page, all]) => ({ page, all }));
  },
  render({ page, all }, ctx) {
    const { search } = ctx;
    const [text, only] = [search.get("q") ?? "", search.get("scope") ?? ""];
    const find = (event) => {
      event.preventDefault();
      location.hash = link(search, "q", new FormData(event.currentTarget).get("q").trim());
    };
    return [
      ctx.operates && h("div", { class: "actions" }, h("button", { class: "primary", type: "button", onclick: () => suspend(ctx) }, "Suspend …")),
      (all.matched > 1 || text || only) && h("form", { class: "filters", role: "search", onsubmit: find }, h("label", { class: "field" }, h("span", null, "Find"), h("input", { type: "search", name: "q", value: text, placeholder: "example.net", autocomplete: "off", spellcheck: "false" })),
        h("div", { class: "chips", role: "group", "aria-label": "Scope" }, h("button", { type: "button", "aria-pressed": String(!only), onclick: () => { location.hash = link(search, "scope", ""); } }, `all ${count(all.matched)}`),
          Object.entries(all.scopes).map(([scope, n]) => h("button", { type: "button", "data-key": scope, "aria-pressed": String(only === scope), onclick: () => { location.hash = link(search, "scope", only === scope ? "" : scope); } }, `${scope} ${count(n)}`)))),
      card(null, page.suspensions.length ? table("Suspensions", [
        { head: "What", wide: true, cell: (x) => [h("b", null, x.value), h("span", { class: "sub" }, x.scope)] }, { head: "Ends", cell: (x) => (x.until ? [wait(x.until), h("span", { class: "sub" }, moment(x.until))] : "when it is resumed") },
        { head: "Reason", wide: true, cell: (x) => said(x.reason) }, { head: "By", hide: true, cell: (x) => [x.by, h("span", { class: "sub" }, age(x.since), " ago")] },
        ...(ctx.operates ? [{ head: h("span", { class: "unseen" }, "Order"), cell: (x) => h("button", { type: "button", "aria-label": `Resume ${x.scope} ${x.value}`, onclick: () => resume(ctx, x) }, "Resume") }] : []),
      ], page.suspensions, (x) => x.id) : text || only || search.get("cursor") ? empty("No suspension meets these conditions.", "Clear the search, or choose another scope.")
        : empty("Nothing is suspended.", "A suspension stops deliveries to a site or domain, to a destination, by a transport, from a source, or of a tenant or class, for a time or until it is resumed. Suspensions survive restarts."),
      (page.next || search.get("cursor")) && h("p", { class: "more pages" }, h("span", { class: "sub" }, `${page.suspensions.length} of ${plural(page.matched, "suspension")}`), search.get("cursor") && h("a", { class: "button", href: link(search) }, "First page"),
        page.next && h("a", { class: "button", href: "#/suspensions?" + new URLSearchParams([...[...search].filter(([k]) => k !== "cursor"), ["cursor", page.next]]) }, "Next page"))),
    ];
  },
};

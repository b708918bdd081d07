// What operators have suspended.
import { get } from "./api.js";
import { h } from "./dom.js";
import { age, moment, wait } from "./format.js";
import { resume, suspend } from "./order.js";
import { card, empty, table } from "./parts.js";

export default {
  title: "Suspensions",
  every: 3000,
  load: (_params, _search, signal) => get("/v1/suspensions", {}, signal),
  render(page, ctx) {
    return [
      ctx.operates && h("div", { class: "actions" }, h("button", { class: "primary", type: "button", onclick: () => suspend(ctx) }, "Suspend …")),
      card(null, page.suspensions.length ? table("Suspensions", [
        { head: "What", wide: true, cell: (x) => [h("b", null, x.value), h("span", { class: "sub" }, x.scope)] }, { head: "Ends", cell: (x) => (x.until ? [wait(x.until), h("span", { class: "sub" }, moment(x.until))] : "when it is resumed") },
        { head: "Reason", wide: true, cell: (x) => x.reason }, { head: "By", hide: true, cell: (x) => [x.by, h("span", { class: "sub" }, age(x.since), " ago")] },
        ...(ctx.operates ? [{ head: h("span", { class: "unseen" }, "Order"), cell: (x) => h("button", { type: "button", "aria-label": `Resume ${x.scope} ${x.value}`, onclick: () => resume(ctx, x) }, "Resume") }] : []),
      ], page.suspensions, (x) => x.scope + x.value) : empty("Nothing is suspended.", "A suspension stops deliveries to a site or domain, to a destination, by a transport, from a source, or of a tenant or class, for a time or until it is resumed. Suspensions survive restarts.")),
    ];
  },
};

// All transports.
import { h } from "./dom.js";
import { count, rate } from "./format.js";
import { badge, card, empty, outcomes, table } from "./parts.js";

export default {
  title: "Transports",
  live: true,
  render: (_data, { sample }) => card(null, sample.transports.length ? table("Transports", [
    { head: "Transport", cell: (t) => [h("a", { href: "#/transports/" + encodeURIComponent(t.name) }, t.name), t.reason && h("span", { class: "sub" }, t.reason)] },
    { head: "State", cell: (t) => badge(t.state) }, { head: "Jobs", num: true, cell: (t) => count(t.jobs) }, { head: "Waiting", num: true, cell: (t) => count(t.waiting) }, { head: "Busy", num: true, cell: (t) => count(t.busy) },
    { head: "Destinations", num: true, hide: true, cell: (t) => count(t.destinations) + (t.dead ? ` (${count(t.dead)} dead)` : "") }, { head: "Connections", num: true, hide: true, cell: (t) => count(t.connections) },
    { head: "Sent/s", num: true, cell: (t) => rate(t.rates.sent) }, { head: "Sent / deferred / bounced", hide: true, num: true, cell: (t) => outcomes(t) },
  ], sample.transports, (t) => t.name) : empty("No transport has been used yet.", "They appear with the first mail.")),
};

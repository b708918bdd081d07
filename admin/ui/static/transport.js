// The jobs of one transport in the order in which they are scheduled, with the preemption stack.
import { get } from "./api.js";
import { meter } from "./chart.js";
import { h } from "./dom.js";
import { age, count, plural, rate, sender } from "./format.js";
import { suspend } from "./order.js";
import { badge, card, empty, figure, flowName, messageLink, words } from "./parts.js";

export default {
  title: ({ name }) => `Transport ${name}`,
  live: true,
  every: 2000,
  load: ({ name }, _search, signal) => get(`/v1/transports/${encodeURIComponent(name)}/jobs`, { lanes: 20, limit: 60 }, signal),
  render(page, ctx) {
    const t = ctx.sample.transports.find((x) => x.name === ctx.params.name);
    return [
      h("div", { class: "actions" }, t && badge(t.state), ctx.operates && h("button", { type: "button", onclick: () => suspend(ctx, "transport", { transport: ctx.params.name }) }, "Suspend …")),
      t?.reason && h("div", { class: "banner" }, words(t.reason, (r) => h("span", null, r))),
      t && h("dl", { class: "figures" }, figure("Jobs", count(t.jobs), "messages"), figure("Busy", count(t.busy), "deliveries"), figure("Waiting", count(t.waiting), "transactions"), figure("Connections", count(t.connections), t.connecting ? `${t.connecting} opening` : "open"), figure("Sent", rate(t.rates.sent), "recipients/s", "sent"), figure("Deferred", rate(t.rates.deferred), "recipients/s", "deferred")),
      page.lanes.length === 0 && empty("No job is in core.", "A message becomes a job of its transport when it comes into core, and leaves the list when its last delivery has begun."),
      page.lanes.map((lane) => h("section", { class: "card", "data-key": lane.class + lane.tenant + lane.flow }, h("h2", null, h("span", { class: "row" }, h("span", null, flowName(lane), lane.class && h("span", { class: "sub" }, lane.class)), h("span", { class: "sub" }, `${count(lane.waiting)} waiting · ${count(lane.busy)} under way`))),
        lane.jobs.length ? [h("ol", { class: "jobs", "aria-label": "Jobs in the order in which they are scheduled" }, lane.jobs.map((j) => job(j, lane))),
          lane.known > lane.jobs.length && h("p", { class: "hint" }, `and ${plural(lane.known - lane.jobs.length, "more job", "more jobs")}`),
          lane.slot_cost >= 2 && lane.jobs.some((j) => j.level > 0) && h("p", { class: "hint" }, `A job earns one delivery slot for each ${lane.slot_cost} of its transactions; with enough of them, a smaller one goes first. Indented jobs have done so, at the expense of the job below.`)]
          : empty("All its deliveries are under way.", ""))),
      page.lanes_more && h("p", { class: "hint" }, `${plural(page.lanes_more, "more flow", "more flows")} with less mail`),
    ];
  },
};

function job(j, lane) {
  const all = j.selected + j.waiting;
  return h("li", { class: `job ${j.level ? "above" : ""} ${j.current ? "current" : ""}`, "data-key": j.queue_id, style: { "--level": Math.min(j.level, 6) } },
    h("span", { class: "place", title: j.current ? "the next selection starts here" : j.blocked ? "none of its destinations has room" : "" }, j.current ? "▶" : j.level ? "↰" : "·"),
    h("span", { class: "grow" }, messageLink(j.queue_id), " ", sender(j.sender), h("span", { class: "sub" }, plural(j.recipients, "recipient"), " · ", age(j.arrived), j.blocked && " · blocked", j.parent && [" · ahead of ", h("span", { class: "code" }, j.parent)])),
    h("span", { class: "progress" }, meter(j.selected, all, `${j.selected} of ${all} started`), h("span", { class: "sub" }, `${count(j.selected)} / ${count(all)}`, lane.slot_cost >= 2 && ` · ${j.slots.toFixed(1)} slots`)));
}

// Orders: each is confirmed in a dialog that says how much mail it is about.
import { get, post, Problem } from "./api.js";
import { h } from "./dom.js";
import { plural } from "./format.js";

const VERBS = {
  retry: { word: "Retry", does: "are tried now" },
  hold: { word: "Hold", does: "stay until they are released" },
  release: { word: "Release", does: "are tried now" },
  drop: { word: "Drop", does: "are removed without a report to their senders. This cannot be undone", harms: true },
  bounce: { word: "Bounce", does: "fail, and their senders receive a report. This cannot be undone", harms: true },
  reroute: { word: "Reroute", does: "go where you say, at once and until that is cleared (posthaste queue reroute --clear)", to: true },
  requeue: { word: "Requeue", does: "are rewritten and classified by the configuration of today, and tried at once unless they are held, under a new queue ID" },
  expire: { word: "Expire", does: "fail as if their lifetime had ended. This cannot be undone", harms: true },
};

// counted adds up the pages of a count.
async function counted(filter) {
  const params = Object.fromEntries(Object.entries(filter).map(([k, v]) => [{ ids: "id", areas: "area" }[k] ?? k, v]));
  const sum = { messages: 0, recipients: 0 };
  for (let cursor; ; ) {
    const page = await get("/v1/counts", { ...params, cursor });
    sum.messages += page.messages;
    sum.recipients += page.recipients;
    cursor = page.next;
    if (!cursor) return sum;
  }
}

async function carryOut(verb, filter, most, form, tell) {
  const sum = { done: 0, pending: 0, matched: 0, unread: 0, refused: 0, requeued: [] };
  for (let cursor; ; ) {
    const left = Math.max(1, most - sum.matched);
    const answer = await post("/v1/messages/" + verb, { filter, to: form.get("to")?.trim(), reason: form.get("reason") || undefined, cursor, confirm: (VERBS[verb].harms || VERBS[verb].to) && !filter.ids ? left : undefined });
    sum.done += answer.done;
    sum.pending += answer.pending;
    sum.matched += answer.matched;
    sum.unread += answer.unread?.length ?? 0;
    sum.refused += answer.refused?.length ?? 0;
    if (verb === "requeue" && sum.requeued.length === 0) sum.requeued = (answer.splits ?? []).slice(0, 5).map((p) => `${p.from} is now ${p.into}`);
    tell(sum);
    cursor = answer.next;
    if (!cursor) return sum;
  }
}

// dialog shows a form, and calls act when it is confirmed; act returns the sentence that tells the result.
export function dialog({ title, body, word, harms, act, done }) {
  const status = h("p", { class: "status", role: "status" });
  const confirm = h("button", { class: harms ? "danger" : "primary", type: "submit" }, word);
  const cancel = h("button", { type: "button", onclick: () => box.close() }, "Cancel");
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    status.className = "status";
    try {
      status.textContent = await act(new FormData(form), (text) => { status.textContent = text; });
      confirm.remove();
      cancel.textContent = "Close";
      cancel.focus();
      done?.();
    } catch (error) {
      confirm.disabled = false;
      status.className = "status error";
      status.textContent = error.message;
    }
  } }, h("h2", { id: "dialog-title" }, title), body, status, h("div", { class: "buttons" }, cancel, confirm));
  const box = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => box.remove() }, form);
  document.body.append(box);
  box.showModal();
  (form.querySelector("input, textarea") ?? (harms ? cancel : confirm)).focus();
  return box;
}

export const field = (label, name, props = {}, hint) =>
  h("label", { class: "field" }, h("span", null, label), h("input", { name, autocomplete: "off", spellcheck: "false", ...props }), hint && h("small", null, hint));

// order asks for confirmation, and gives the order for all messages that meet a filter.
export async function order(verb, filter, what, done) {
  const v = VERBS[verb];
  let sum;
  try {
    sum = await counted(filter);
  } catch (error) {
    sum = error instanceof Problem ? { error } : { error: new Problem(0, error.message) };
  }
  if (sum.error || sum.messages === 0) {
    dialog({ title: `${v.word} ${what}`, word: "OK", body: h("p", null, sum.error ? sum.error.message : "No message meets these conditions any more."), act: async () => "" }).querySelector("button[type=submit]").remove();
    return;
  }
  dialog({
    title: `${v.word} ${what}?`, word: `${v.word} ${plural(sum.messages, "message")}`, harms: v.harms,
    body: [h("p", null, h("b", null, `${plural(sum.messages, "message")} with ${plural(sum.recipients, "waiting recipient")}`), ` ${v.does}.`), v.to && field("To", "to", { required: true, maxlength: 512, placeholder: "smtp:[relay.example]:587" }, "a nexthop, or transport:nexthop; to discard: or error: cannot be undone"), field("Reason (for the log)", "reason", { maxlength: 512, required: v.harms })],
    act: async (form, tell) => {
      const r = await carryOut(verb, filter, sum.messages, form, (p) => tell(`${plural(p.done + p.pending, "message")} so far …`));
      return `${plural(r.done, "message")} done` + (r.pending ? `, ${r.pending} when their deliveries under way have ended` : "") + (r.unread ? `, ${r.unread} could not be read` : "") + (r.refused ? `, ${r.refused} not, since an address cannot be rewritten or there is no room` : "") + "." + (r.requeued.length ? ` ${r.requeued.join("; ")}.` : "");
    },
    done,
  });
}

// orders are the buttons for a filter; without the scope operate there are none.
export const orders = (ctx, verbs, filter, what) => ctx.operates && h("div", { class: "buttons" },
  verbs.map((verb) => h("button", { class: VERBS[verb].harms ? "danger quiet" : "", type: "button", onclick: () => order(verb, filter, what, ctx.refresh) }, VERBS[verb].word)));

// suspend asks what to suspend, for how long and why. values has the names that are proposed, by scope.
export function suspend(ctx, scope = "site", values = {}) {
  const box = dialog({
    title: "Suspend deliveries", word: "Suspend",
    body: [h("p", null, "No delivery starts for it until the time is over or it is resumed. Mail waits, and expires like other mail. Deliveries under way go on."),
      h("label", { class: "field" }, h("span", null, "What"), h("select", { name: "scope" }, ["site", "domain", "destination", "transport", "source", "tenant", "class"].map((x) => h("option", { value: x, selected: x === scope }, x)))),
      field("Name", "value", { value: values[scope] ?? "", required: true }, "of a destination: transport:site"), field("For", "for", { placeholder: "2h" }, "units s, m, h, d, w; empty: until it is resumed"), field("Reason", "reason", { required: true, maxlength: 400 })],
    act: async (form) => {
      const answer = await post("/v1/suspensions", { scope: form.get("scope"), value: form.get("value").trim(), for: form.get("for").trim() || undefined, reason: form.get("reason").trim() });
      return answer.warning ? `Suspended. ${answer.warning}` : "Suspended.";
    },
    done: ctx.refresh,
  });
  const [what, name] = [box.querySelector("select"), box.querySelector("input[name=value]")];
  what.addEventListener("change", () => {
    if (name.value === "" || Object.values(values).includes(name.value)) name.value = values[what.value] ?? "";
  });
}

// resume ends a suspension.
export function resume(ctx, one) {
  dialog({
    title: `Resume ${one.scope} ${one.value}?`, word: "Resume", body: h("p", null, "The mail that it has kept waiting is tried at once."),
    act: async () => {
      await post("/v1/suspensions/resume", { scope: one.scope, value: one.value });
      return "Resumed.";
    },
    done: ctx.refresh,
  });
}

// The configuration in force, where each value is set, and what a reload would change.
import { get, post } from "./api.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { dialog } from "./order.js";
import { badge, card, empty, table } from "./parts.js";

export default {
  title: "Configuration",
  async load(_params, search, signal) {
    const running = await get("/v1/configuration", { changed: search.get("all") ? undefined : true }, signal);
    const { scope } = await get("/v1/identity", {}, signal);
    let diff = null;
    let mistakes = null;
    if (scope === "operate") await post("/v1/configuration/reload", { dry_run: true }).then((d) => { diff = d; }, (error) => { mistakes = error; });
    const keys = keysOf(running.text).filter((key) => key).slice(0, 500);
    const { parameters } = keys.length ? await get("/v1/configuration/parameters", { key: keys }, signal) : { parameters: [] };
    return { running, diff, mistakes, origins: new Map(parameters.map((p) => [p.key, p.origin])) };
  },
  render({ running, diff, mistakes, origins }, ctx) {
    const all = Boolean(ctx.search.get("all"));
    return [
      card(h("span", { class: "row" }, "The file, compared with what runs", ctx.operates && diff?.changes.length > 0 && h("button", { class: "primary", type: "button", onclick: () => reload(ctx, diff) }, "Reload …")),
        mistakes ? h("div", { class: "banner", role: "alert" }, mistakes.message)
          : !diff ? empty("This needs a token with the scope operate.", "On the machine, posthaste config diff shows the same.")
            : diff.changes.length ? changes(diff.changes) : empty("The file says what runs.", "A change in the file is shown here before a reload puts it into force."),
        (diff?.warnings ?? []).map((w) => h("p", { class: "hint" }, h("code", null, w.key), " ", w.message))),
      running.pending.length > 0 && card("Waits for a restart", changes(running.pending)),
      card(h("span", { class: "row" }, "In force", h("span", { class: "switch" }, h("a", { href: "#/configuration", "aria-current": all ? undefined : "true" }, "changed"), h("a", { href: "#/configuration?all=1", "aria-current": all ? "true" : undefined }, "all"))),
        h("p", { class: "hint" }, (all ? "All parameters" : "Parameters that do not have their defaults") + "; on the right, where each is set."), toml(running.text, origins)),
    ];
  },
};

const changes = (list) => table("Changes", [{ head: "Parameter", wide: true, cell: (c) => h("code", null, c.key) }, { head: "Runs", wide: true, cell: (c) => h("del", { class: "code" }, c.old || "–") }, { head: "File", wide: true, cell: (c) => h("ins", { class: "code" }, c.new || "–") }, { head: "Takes effect", cell: (c) => (c.restart ? badge("paused") : "at a reload") && (c.restart ? "at a restart" : "at a reload") }], list, (c) => c.key);

// keysOf returns the full name of the parameter in each line, "" where there is none.
function keysOf(text) {
  let table = "";
  return text.split("\n").map((row) => {
    const head = /^\[+([^\]]+)\]+/.exec(row);
    if (head) table = head[1] + ".";
    const pair = /^([\w.\-"]+)\s*=/.exec(row);
    return pair ? table + pair[1] : "";
  });
}

// toml colors keys, comments and tables, and says where each value is set.
function toml(text, origins) {
  const keys = keysOf(text);
  return h("pre", { class: "toml", tabindex: "0", "aria-label": "Configuration in force" }, text.split("\n").map((row, i) => {
    const comment = /^([^"#]*(?:"[^"]*"[^"#]*)*)(#.*)$/.exec(row);
    const [code, note] = comment ? [comment[1], comment[2]] : [row, ""];
    const pair = /^(\s*[\w.\-"]+\s*=)(.*)$/.exec(code);
    return [i ? "\n" : "", pair ? [h("b", null, pair[1]), pair[2]] : code.startsWith("[") ? h("span", { class: "tab" }, code) : code, note && h("i", null, note), origins.get(keys[i]) && h("i", { class: "origin" }, "   ← " + origins.get(keys[i]))];
  }));
}

function reload(ctx, diff) {
  dialog({
    title: "Put the file into force?", word: "Reload", body: h("p", null, `${plural(diff.changes.length, "parameter")} differ. If the file cannot be put into force, nothing changes.`),
    act: async () => {
      const done = await post("/v1/configuration/reload", {});
      return `${plural(done.changes.length, "change")} in force` + (done.restart?.length ? `; at the next start: ${done.restart.join(", ")}` : "") + ".";
    },
    done: ctx.refresh,
  });
}

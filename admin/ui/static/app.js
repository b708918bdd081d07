// The frame around all pages: signing in, navigation, and the stream of live figures.
import * as api from "./api.js";
import { h, show } from "./dom.js";
import { plural } from "./format.js";
import { empty } from "./parts.js";
import configuration from "./configuration.js";
import flows from "./flows.js";
import message from "./message.js";
import messages from "./messages.js";
import overview from "./overview.js";
import site from "./site.js";
import sites from "./sites.js";
import suspensions from "./suspensions.js";
import transport from "./transport.js";
import transports from "./transports.js";

// Pages: an address, and {title, load, render, every}. load fetches what render draws; live pages are drawn
// again with each sample; every is the time in ms after which a page is loaded again.
const PAGES = [
  ["", overview], ["sites", sites], ["sites/:name", site], ["transports", transports], ["transports/:name", transport], ["messages", messages], ["messages/:id", message],
  ["flows", flows], ["suspensions", suspensions], ["configuration", configuration],
];
const NAVIGATION = [["", "Overview"], ["sites", "Sites"], ["messages", "Messages"], ["transports", "Transports"], ["flows", "Flows"], ["suspensions", "Suspensions"], ["configuration", "Configuration"]];

const app = document.getElementById("app");
const state = { identity: null, sample: null, offline: false, page: null, data: null, error: null, params: {}, stop: null };

function theme(next) {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  if (next) {
    const now = root.dataset.theme ?? (dark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    localStorage.setItem("posthaste-theme", root.dataset.theme);
    return;
  }
  const chosen = localStorage.getItem("posthaste-theme");
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
}

const themeButton = () => h("button", { class: "icon", type: "button", title: "Light or dark", "aria-label": "Switch between light and dark", onclick: () => theme(true) }, "◐");

// decoded is a part of an address; one that is not encoded properly is taken as it is.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// where reads the address: the page, its parameters, and the query behind it.
function where() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map(decoded);
  for (const [pattern, page] of PAGES) {
    const want = pattern.split("/");
    if (want.length !== parts.length || !want.every((w, i) => w.startsWith(":") || w === parts[i])) continue;
    const params = Object.fromEntries(want.map((w, i) => [w.slice(1), parts[i]]).filter((_, i) => want[i].startsWith(":")));
    return { page, params, search: new URLSearchParams(search ?? ""), top: parts[0] };
  }
  return { page: null, params: {}, search: new URLSearchParams(), top: parts[0] };
}

const context = () => ({ sample: state.sample, params: state.params, search: state.search, operates: state.identity?.scope === "operate", refresh: load, redraw: draw });

function draw() {
  if (!state.identity) return;
  const s = state.sample;
  const title = state.page ? (typeof state.page.title === "function" ? state.page.title(state.params) : state.page.title) : "Not found";
  document.title = `${title} · Posthaste`;
  let body;
  if (!state.page) body = empty("There is no such page.", "Choose one above.");
  else if (state.error && !state.data) body = h("div", { class: "empty error", role: "alert" }, h("p", { class: "strong" }, "This cannot be shown."), h("p", null, state.error.message));
  else if (state.page.load && !state.data) body = h("div", { class: "loading", "aria-busy": "true" }, "Loading …");
  else if (state.page.live && !s) body = h("div", { class: "loading", "aria-busy": "true" }, "Waiting for the first figures …");
  else body = state.page.render(state.data, context());
  show(app,
    h("a", { class: "skip", href: "#main", onclick: (e) => { e.preventDefault(); document.getElementById("main").focus(); } }, "Skip to the page"),
    h("header", null,
      h("a", { class: "brand", href: "#/" }, h("img", { src: "icon.svg", width: 24, height: 24, alt: "" }), "Posthaste"),
      h("nav", { "aria-label": "Pages" }, NAVIGATION.map(([path, word]) => h("a", { href: "#/" + path, "aria-current": state.top === path ? "page" : undefined }, word))),
      h("div", { class: "session" }, h("span", { class: `pulse ${state.offline ? "off" : ""}`, title: state.offline ? "No live figures" : "Live", role: "img", "aria-label": state.offline ? "no live figures" : "live" }),
        h("span", { class: "who" }, `${state.identity.name} · ${state.identity.scope}`), themeButton(), h("button", { type: "button", onclick: api.signOut }, "Sign out"))),
    h("main", { id: "main", tabindex: "-1" },
      (s?.unready || state.offline || s?.totals.offline_since) && h("div", { class: "banner", role: "alert" },
        state.offline ? "The daemon does not answer; the figures below are old." : s.unready ? `No mail is accepted: ${s.unready}.` : "Hardly any host can be reached: our own network seems to be down."),
      h("div", { class: "heading" }, h("h1", null, title)),
      state.error && state.data && h("div", { class: "banner", role: "alert" }, state.error.message), body));
}

// load fetches what the page shows.
async function load() {
  const page = state.page;
  if (!page?.load || !state.identity) return draw();
  const stop = state.stop;
  try {
    const data = await page.load(state.params, state.search, stop.signal);
    if (stop !== state.stop) return;
    state.data = data;
    state.error = null;
  } catch (error) {
    if (error.name === "AbortError" || stop !== state.stop) return;
    state.error = error;
    if (error.status === 404) state.data = null;
  }
  draw();
}

function go() {
  if (!state.identity) return;
  const to = where();
  state.stop?.abort();
  clearInterval(state.timer);
  const stop = new AbortController();
  Object.assign(state, to, { data: null, error: null, stop });
  if (to.page?.every) state.timer = setInterval(() => !document.hidden && load(), to.page.every);
  draw();
  load();
  document.getElementById("main")?.focus({ preventScroll: true });
  scrollTo(0, 0);
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// watch follows the live figures for as long as somebody is signed in; if there are too many streams, it asks now and then.
async function watch() {
  const params = { sites: 100, flows: 50 };
  const take = (sample) => {
    state.sample = sample;
    state.offline = false;
    if (state.page?.live) draw();
  };
  while (state.identity) {
    try {
      await api.follow("/v1/live/stream", params, take, undefined);
    } catch (error) {
      if (error.status === 429) {
        await api.get("/v1/live", params).then(take, () => {});
        await pause(2000);
        continue;
      }
    }
    if (!state.identity) return;
    state.offline = true;
    draw();
    await pause(2000);
  }
}

async function enter() {
  state.identity = await api.get("/v1/identity");
  go();
  watch();
}

function login(text = "") {
  Object.assign(state, { identity: null, sample: null });
  state.stop?.abort();
  clearInterval(state.timer);
  document.title = "Sign in · Posthaste";
  const status = h("p", { class: "status error", role: "alert" }, text);
  const input = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, "aria-describedby": "token-hint", spellcheck: "false" });
  const form = h("form", { class: "login card", onsubmit: async (event) => {
    event.preventDefault();
    api.keep(input.value.trim());
    try {
      await enter();
    } catch (error) {
      login(error.status === 401 ? "This token is not valid. It may have ended, or have been removed." : error.message);
    }
  } }, h("img", { src: "icon.svg", width: 40, height: 40, alt: "" }), h("h1", null, "Posthaste"),
    h("label", { class: "field" }, h("span", null, "Token"), input), h("p", { id: "token-hint", class: "hint" }, "An administrator makes one with ", h("code", null, "posthaste token add NAME --scope read"), "."),
    status, h("button", { class: "primary", type: "submit" }, "Sign in"));
  app.replaceChildren(h("main", { class: "outside" }, form, h("p", { class: "hint" }, themeButton())));
  input.focus();
}

theme();
addEventListener("hashchange", go);
api.whenRefused(() => login(""));
if (api.known() || (await api.shared())) await enter().catch((error) => login(error.status === 401 ? "" : error.message));
else login();

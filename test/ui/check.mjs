// Clicks through the dashboard in Chromium, in light and dark, wide and narrow, and once by keyboard alone, against a
// daemon with real mail. Compares what is shown with the API, and has axe look at each page.
//
//   MODULES=… BINARY=… SHOTS=… node check.mjs
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { END, faults, OVERRIDE, spoiled, TEXTS } from "./hostile.mjs";
import { start } from "./rig.mjs";

const require = createRequire(process.env.MODULES + "/");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const shots = process.env.SHOTS;

const begin = Date.now();
const ok = (text) => console.log(`ok      ${text} (${((Date.now() - begin) / 1000).toFixed(0)} s)`);

// soon repeats a check until it holds: what is shown is a second or two old.
async function soon(what, check, seconds = 12) {
  for (const end = Date.now() + seconds * 1000; ; await new Promise((resolve) => setTimeout(resolve, 150))) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw new Error(`${what}: ${error.message}`);
    }
  }
}

// visit opens the dashboard in a new context that notes everything that must not happen.
async function visit(browser, rig, options) {
  const context = await browser.newContext(options);
  const wrong = [];
  await context.addInitScript(() => document.addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " + e.blockedURI)));
  await context.route("**/*", (route) => {
    if (!route.request().url().startsWith(rig.address + "/")) wrong.push("request to " + route.request().url());
    return route.continue();
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on("pageerror", (error) => wrong.push(error.stack));
  page.on("console", (m) => m.type() === "error" && !/status of 40[14]/.test(m.text()) && wrong.push(m.text()));
  await page.goto(rig.address + "/");
  return { context, page, wrong };
}

async function signIn(page, token) {
  await page.locator("input[name=token]").fill(token);
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: "Overview" }).waitFor();
}

async function open(page, address, hash, heading) {
  await page.goto(`${address}/ui/#/${hash}`);
  await page.locator("h1", { hasText: heading }).waitFor();
  await page.locator(".loading").waitFor({ state: "detached" });
}

// accessible has axe look at the page. It is put in by the debugger, which the page's policy does not bind.
async function accessible(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    return violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")}`);
  });
  return found.map((text) => `${what}: ${text}`);
}

async function allPages(browser, rig, colorScheme, width) {
  const live = await rig.ask("/v1/live?sites=256");
  const site = live.sites.find((x) => x.nexthop === "contoso.example");
  const { messages } = await rig.ask("/v1/messages?domain=fabrikam.example&limit=1");
  const pages = [["", "Overview"], ["sites", "Sites"], ["sites/" + encodeURIComponent(site.name), "contoso.example"], ["transports", "Transports"], ["transports/bulk", "Transport bulk"], ["messages", "Messages"],
    ["messages/" + messages[0].queue_id, "Message " + messages[0].queue_id], ["flows", "Flows and tenants"], ["suspensions", "Suspensions"], ["configuration", "Configuration"], ["sites/smtp%3Anone.example", "none.example"]];
  const { context, page, wrong } = await visit(browser, rig, { viewport: { width, height: width < 500 ? 844 : 900 }, colorScheme });
  await page.locator("input[name=token]").waitFor();
  const issues = await accessible(page, "the login page");
  await signIn(page, rig.tokens.operate);
  for (const [hash, heading] of pages) {
    await open(page, rig.address, hash, heading);
    issues.push(...(await accessible(page, heading)));
    if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) issues.push(`${heading} is wider than ${width} pixels`);
    await page.screenshot({ path: path.join(shots, `${heading.replace(/\W+/g, "-").toLowerCase()}-${colorScheme}-${width}.png`), fullPage: true });
  }
  assert.deepEqual([...issues, ...wrong], []);
  await context.close();
}

// figures compares what is shown with the API.
async function figures(browser, rig) {
  const { context, page, wrong } = await visit(browser, rig, { viewport: { width: 1280, height: 900 } });
  await page.locator("input[name=token]").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("This token is not valid").waitFor();
  await signIn(page, rig.tokens.read);
  const number = async (label) => Number((await page.locator(".figure", { hasText: label }).locator(".number").first().innerText()).replaceAll(",", ""));
  const before = await rig.ask("/v1/live");
  const fact = (label) => page.locator(".facts dt", { hasText: label }).locator("xpath=following-sibling::dd[1]").innerText();
  await soon("messages in", async () => assert.ok(Number((await fact("Messages in")).replaceAll(",", "")) >= before.totals.arrived));
  assert.ok((await rig.ask("/v1/live")).totals.arrived + 60 >= Number((await fact("Messages in")).replaceAll(",", "")), "more messages are shown than came in");
  await soon("connections", async () => assert.equal(await number("Connections"), (await rig.ask("/v1/live")).totals.connections));

  await open(page, rig.address, "sites", "Sites");
  await soon("sites", async () => assert.deepEqual((await page.locator("tbody tr").evaluateAll((rows) => rows.map((r) => r.dataset.key))).sort(), (await rig.ask("/v1/live?sites=256")).sites.map((x) => x.name).sort()));
  assert.equal(await page.locator("tr[data-key='smtp:tailspin.example'] .badge").innerText(), "dead");
  await page.locator("input[type=search]").fill("wing");
  await soon("the search", async () => assert.deepEqual(await page.locator("tbody tr").evaluateAll((rows) => rows.map((r) => r.dataset.key)), ["bulk:wingtip.example"]));

  await open(page, rig.address, "sites/smtp%3Acontoso.example", "contoso.example");
  await soon("the window", async () => assert.equal(await number("Window"), (await rig.ask("/v1/destinations/smtp:contoso.example")).window));
  const { moves } = await rig.ask("/v1/live/sites/smtp:contoso.example");
  assert.ok(moves.length > 0);
  await soon("its moves", async () => assert.match(await page.locator(".moves").innerText(), new RegExp(`${moves[0].from} → ${moves[0].to}`)));
  await open(page, rig.address, "sites/smtp%3Atailspin.example", "tailspin.example");
  assert.match(await page.locator(".banner").innerText(), /connection refused/);

  await open(page, rig.address, "transports/bulk", "Transport bulk");
  const jobs = async () => (await rig.ask("/v1/transports/bulk/jobs")).lanes.flatMap((l) => l.jobs.map((j) => j.queue_id));
  await soon("jobs", async () => assert.deepEqual(await page.locator(".job").evaluateAll((rows) => rows.map((r) => r.dataset.key)), await jobs()));
  await soon("a preemption", async () => assert.match(await page.locator(".job.above").first().innerText({ timeout: 500 }), /ahead of/), 40);
  await page.screenshot({ path: path.join(shots, "preemption.png") });

  const { messages: [m] } = await rig.ask("/v1/messages?domain=fabrikam.example&limit=1");
  const detail = await rig.ask("/v1/messages/" + m.queue_id);
  await open(page, rig.address, "messages?domain=fabrikam.example", "Messages");
  await page.getByRole("link", { name: m.queue_id }).click();
  await page.locator("h1", { hasText: m.queue_id }).waitFor();
  await page.locator(".timeline").waitFor();
  const text = await page.locator("main").innerText();
  for (const want of [detail.sender, detail.all_recipients[0].address, detail.all_recipients[0].reply, "backoff"]) assert.ok(text.includes(want), `the message page lacks ${want}:\n${text}`);
  assert.ok(detail.history.length > 0);
  await page.route("**/v1/messages/" + m.queue_id + "?*", async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    json.all_recipients[0].doubtful = [{ host: "192.0.2.9:25", times: 2 }];
    return route.fulfill({ response: answer, json });
  });
  await soon("an attempt whose result is unknown", async () => assert.match(await page.locator("main").innerText(), /192\.0\.2\.9:25 may have the message: no reply to its content, 2 times/));
  await page.unroute("**/v1/messages/" + m.queue_id + "?*");
  for (const a of detail.history) assert.ok((await page.locator(".timeline").innerText()).includes(`attempt ${a.number}: ${a.result}: ${a.recipient} at ${a.host}, after ${a.stage}`), "an attempt is not in the timeline");
  await page.getByRole("button", { name: "Show the header" }).click();
  await page.locator("pre", { hasText: "Subject: Your ticket" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Drop" }).count(), 0, "a token that may only read has orders");

  await open(page, rig.address, "configuration", "Configuration");
  await page.locator("pre", { hasText: "minimal_backoff_time" }).waitFor();
  assert.match(await page.locator("pre").innerText(), /minimal_backoff_time = "20s" +← set in line \d+/);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.locator("input[name=token]").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0, "the token is kept after signing out");
  assert.deepEqual(wrong, []);
  await context.close();
}

// orders holds and releases all mail for a domain, and drops a message.
async function orders(browser, rig) {
  const { context, page, wrong } = await visit(browser, rig, { viewport: { width: 1280, height: 900 } });
  await signIn(page, rig.tokens.operate);
  await open(page, rig.address, "messages?domain=fabrikam.example", "Messages");
  const count = async (area) => (await rig.ask("/v1/counts?domain=fabrikam.example" + (area ? "&area=" + area : ""))).messages;
  const all = await count();
  assert.ok(all > 10);
  await page.getByRole("button", { name: "Hold", exact: true }).click();
  const dialog = page.locator("dialog");
  assert.match(await dialog.innerText(), new RegExp(`${all} messages with ${all} waiting recipients`));
  await dialog.locator("input[name=reason]").fill("a test");
  await page.screenshot({ path: path.join(shots, "order.png") });
  await dialog.locator("button[type=submit]").click();
  await dialog.getByText("done").waitFor();
  await soon("the hold", async () => assert.equal(await count("hold"), all));
  await dialog.getByRole("button", { name: "Close" }).click();
  const { messages: [m] } = await rig.ask("/v1/messages?domain=fabrikam.example&limit=1");
  await open(page, rig.address, "messages/" + m.queue_id, m.queue_id);
  await page.getByRole("button", { name: "Drop" }).click();
  await page.locator("dialog input[name=reason]").fill("a test");
  await page.locator("dialog button[type=submit]").click();
  await soon("the drop", async () => assert.equal(await count(), all - 1));
  await soon("the order in the log", async () => assert.match(rig.log(), /msg=order verb=drop .*by="token operator at 127/));
  assert.deepEqual(wrong, []);
  await context.close();
}

// keyboard goes from signing in to a suspension and back without a pointer.
async function keyboard(browser, rig) {
  const { context, page, wrong } = await visit(browser, rig, { viewport: { width: 1280, height: 900 } });
  const focus = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label") || document.activeElement?.textContent?.trim() || document.activeElement?.getAttribute("name"));
  const tabTo = async (name) => {
    for (let i = 0; i < 60; i++) {
      if ((await focus()) === name) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`${name} cannot be reached by Tab`);
  };
  await page.locator("input[name=token]").waitFor();
  await page.keyboard.type(rig.tokens.operate); // the field has the focus
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: "Overview" }).waitFor();
  await tabTo("Suspensions");
  await page.waitForTimeout(2500); // live figures come in meanwhile, and the focus stays
  assert.equal(await focus(), "Suspensions");
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: "Suspensions" }).waitFor();
  await page.locator(".loading").waitFor({ state: "detached" });
  await tabTo("Suspend …");
  await page.keyboard.press("Enter");
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.type("adatum.example");
  await page.keyboard.press("Tab");
  await page.keyboard.type("10m");
  await page.keyboard.press("Tab");
  await page.keyboard.type("maintenance there");
  await page.keyboard.press("Enter");
  await page.locator("dialog .status", { hasText: "Suspended" }).waitFor();
  const [one] = (await rig.ask("/v1/suspensions")).suspensions;
  assert.deepEqual([one.scope, one.value, one.reason], ["site", "adatum.example", "maintenance there"]);
  await page.keyboard.press("Escape");
  await page.locator("tbody tr", { hasText: "adatum.example" }).waitFor();
  await page.screenshot({ path: path.join(shots, "suspended.png") });
  await tabTo("Resume site adatum.example");
  await page.keyboard.press("Enter");
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.press("Enter");
  await soon("the resume", async () => assert.deepEqual((await rig.ask("/v1/suspensions")).suspensions, []));
  assert.deepEqual(wrong, []);
  await context.close();
}

// folded checks that the long reply of a message does not make its page long, and is shown in full by keyboard, also when
// the figures change.
async function folded(page, message) {
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  const all = page.locator("td details.long");
  const end = all.getByText(END);
  assert.equal(await end.isVisible(), false, "a long reply is not folded");
  await all.locator("summary").focus();
  await page.keyboard.press("Enter");
  await end.waitFor();
  assert.ok(await page.evaluate(() => document.documentElement.scrollHeight) > height, "unfolding shows nothing");
  await page.waitForResponse((r) => r.url().includes("/v1/messages/" + message.queue_id));
  await page.waitForTimeout(300);
  assert.equal(await end.isVisible(), true, "the page folds a reply that a person reads");
  assert.equal(await all.getByText("Show less").isVisible(), true);
  await page.keyboard.press("Enter");
  await end.waitFor({ state: "hidden" });
  assert.ok(height < 5000, `the page of a message with a long reply is ${height} pixels high`);
}

// hostile shows all pages with texts that strangers may have written in place of all that the API says, and the message of a
// sender and a receiver that do write such.
async function hostile(browser, rig, width) {
  const { context, page, wrong } = await visit(browser, rig, { viewport: { width, height: 844 } });
  await signIn(page, rig.tokens.operate);
  const issues = [];
  const look = async (what) => {
    for (const text of await page.evaluate(faults, { end: END, override: OVERRIDE, width })) issues.push(`${what}: ${text}`);
  };
  const { messages: [real] } = await rig.ask("/v1/messages?domain=hostile.example&limit=1");
  assert.match((await rig.ask("/v1/messages/" + real.queue_id)).all_recipients[0].reply, /<script>/);
  await open(page, rig.address, "messages/" + real.queue_id, real.queue_id);
  await page.getByText("window.ran").first().waitFor();
  await look("a hostile message");
  await folded(page, real);
  await page.screenshot({ path: path.join(shots, `hostile-message-${width}.png`), fullPage: true });
  const { messages: [m] } = await rig.ask("/v1/messages?domain=fabrikam.example&limit=1");
  for (let shift = 0; shift < TEXTS.length; shift += 3) { // so that each place has several of them
    await page.unroute("**/v1/**");
    await page.route("**/v1/**", async (route) => {
      if (/identity|\/header|\/content/.test(route.request().url())) return route.fallback();
      if (route.request().url().includes("/live/stream")) {
        const sample = spoiled(await rig.ask("/v1/live?sites=20&flows=20"), { at: shift });
        return route.fulfill({ contentType: "text/event-stream", body: `event: sample\ndata: ${JSON.stringify(sample)}\n\n` });
      }
      const answer = await route.fetch();
      if (!answer.ok() || !/json/.test(answer.headers()["content-type"])) return route.fulfill({ response: answer });
      return route.fulfill({ response: answer, json: spoiled(await answer.json(), { at: shift }) });
    });
    for (const hash of ["", "sites", "sites/smtp%3Acontoso.example", "transports", "transports/bulk", "messages", "messages/" + m.queue_id, "flows", "suspensions", "configuration"]) {
      await page.goto(`${rig.address}/ui/#/${hash}`);
      await page.reload(); // with the figures of this turn
      await page.locator("main h1").waitFor();
      await page.locator(".loading").waitFor({ state: "detached" });
      await look(`#/${hash}, texts from ${shift}`);
    }
    await page.screenshot({ path: path.join(shots, `hostile-${width}.png`), fullPage: true });
  }
  assert.deepEqual([...new Set(issues)], []);
  await page.unroute("**/v1/**");
  // Addresses that are wrong are no errors of the page, and keep nothing from being shown after.
  for (const hash of ["sites/%zz", "%", "messages/%E0%A4%A", "sites/__proto__", "messages/<img src=x>"]) {
    await page.goto(`${rig.address}/ui/#/${hash}`);
    await page.locator("main h1").waitFor();
    await page.locator(".loading").waitFor({ state: "detached" });
    await look("#/" + hash);
  }
  await open(page, rig.address, "sites", "Sites");
  assert.deepEqual([...issues, ...wrong.filter((text) => !/status of (422|400)/.test(text))], []);
  // The check itself: what the policy forbids is noticed.
  await page.evaluate(() => document.body.append(Object.assign(new Image(), { src: "https://elsewhere.example/x.png" })));
  await soon("the policy", () => assert.match(wrong.join(), /policy: img-src/));
  await assert.rejects(page.evaluate(() => document.body.append(Object.assign(document.createElement("script"), { textContent: "window.ran = true" }))), /TrustedScript/);
  assert.equal(await page.evaluate(() => window.ran), undefined, "the policy lets a script run");
  await context.close();
}

// destination suspends one by the button of its page: the transport's mail for the site, and no other's.
async function destination(browser, rig) {
  const { context, page, wrong } = await visit(browser, rig, { viewport: { width: 1280, height: 900 } });
  await signIn(page, rig.tokens.operate);
  await open(page, rig.address, "sites/smtp%3Aadatum.example", "adatum.example");
  await page.getByRole("button", { name: "Suspend …" }).click();
  const scope = page.locator("dialog select[name=scope]");
  assert.equal(await scope.inputValue(), "site");
  assert.equal(await page.locator("dialog input[name=value]").inputValue(), "adatum.example");
  await scope.selectOption("destination");
  assert.equal(await page.locator("dialog input[name=value]").inputValue(), "smtp:adatum.example");
  await page.locator("dialog input[name=reason]").fill("a test");
  await page.locator("dialog button[type=submit]").click();
  await page.locator("dialog .status", { hasText: "Suspended" }).waitFor();
  const [one] = (await rig.ask("/v1/suspensions")).suspensions;
  assert.deepEqual([one.scope, one.value], ["destination", "smtp:adatum.example"]);
  await page.keyboard.press("Escape");
  await open(page, rig.address, "suspensions", "Suspensions");
  await page.getByRole("button", { name: "Resume destination smtp:adatum.example" }).click();
  await page.locator("dialog button[type=submit]").click();
  await soon("the resume", async () => assert.deepEqual((await rig.ask("/v1/suspensions")).suspensions, []));
  assert.deepEqual(wrong, []);
  await context.close();
}

let failed = null;
const rig = await start(process.env.BINARY);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
try {
  ok("a daemon with mail, and receivers");
  await soon("deferred mail", async () => assert.ok((await rig.ask("/v1/live")).totals.spool.deferred > 10), 20);
  await keyboard(browser, rig);
  ok("by keyboard: signing in, suspending and resuming");
  await figures(browser, rig);
  ok("what is shown is what the API says");
  for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 390], ["dark", 390]]) {
    await allPages(browser, rig, scheme, width);
    ok(`all pages, ${scheme}, ${width} pixels: no serious issue by axe, no overflow, nothing that the policy forbids`);
  }
  for (const width of [390, 1280]) {
    await hostile(browser, rig, width);
    ok(`hostile texts on all pages, ${width} pixels: no script, no element, no overflow, isolated from what stands around`);
  }
  await destination(browser, rig);
  ok("suspending and resuming a destination");
  await orders(browser, rig);
  ok("orders, with confirmation");
} catch (error) {
  failed = error;
} finally {
  await browser.close();
  if (failed) fs.writeFileSync(path.join(shots, "daemon.log"), rig.log());
  await rig.stop();
}
if (failed) {
  console.log(`FAILED  ${failed.stack}`);
  process.exit(1);
}

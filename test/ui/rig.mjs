// A daemon with real mail: receivers that are good, limited, greylisting, slow and dead, and senders.
import { spawn, execFileSync } from "node:child_process";
import dgram from "node:dgram";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { END, TEXTS } from "./hostile.mjs";

// Each receiver has a loopback address of its own, so that its name needs no port.
const base = `127.${60 + (process.pid % 120)}.${1 + (process.pid >> 8) % 250}`;

export const RECEIVERS = [
  { domain: "northwind.example", flags: ["--delay", "60ms"] },
  { domain: "contoso.example", flags: ["--delay", "900ms", "--connection-limit", "5"] },
  { domain: "fabrikam.example", flags: ["--tempfail-recipients", "100"] },
  { domain: "adatum.example", flags: ["--delay", "40ms", "--refuse-recipients", "25"] },
  { domain: "wingtip.example", transport: "bulk", flags: ["--delay", "450ms"] },
  { domain: "tailspin.example" }, // nothing listens there
  { domain: "hostile.example", server: true }, // hostileServer
];

// nameServer answers for the receivers' names: each is its own mail server.
function nameServer() {
  const socket = dgram.createSocket("udp4");
  socket.on("message", (question, from) => {
    let end = 12;
    const labels = [];
    while (question[end]) {
      labels.push(question.toString("ascii", end + 1, end + 1 + question[end]).toLowerCase());
      end += question[end] + 1;
    }
    end += 5;
    const type = question.readUInt16BE(end - 4);
    const i = RECEIVERS.findIndex((r) => r.domain === labels.join("."));
    const answer = Buffer.alloc(16);
    const has = type === 1 && i >= 0;
    if (has) {
      answer.writeUInt16BE(0xc00c, 0);
      answer.writeUInt16BE(1, 2);
      answer.writeUInt16BE(1, 4);
      answer.writeUInt32BE(300, 6);
      answer.writeUInt16BE(4, 10);
      Buffer.from(`${base}.${i + 10}`.split(".").map(Number)).copy(answer, 12);
    }
    const head = Buffer.from(question.subarray(0, end));
    head.writeUInt16BE(0x8480 | (i < 0 ? 3 : 0), 2);
    head.writeUInt16BE(has ? 1 : 0, 6);
    head.writeUInt32BE(0, 8);
    socket.send(Buffer.concat(has ? [head, answer] : [head]), from.port, from.address);
  });
  return new Promise((resolve) => socket.bind(0, "127.0.0.1", () => resolve(socket)));
}

// hostileServer refuses all recipients for now, with a reply that no server should give.
function hostileServer(address) {
  const server = net.createServer((socket) => {
    socket.on("error", () => {});
    socket.write("220 mx.hostile.example ESMTP\r\n");
    socket.setEncoding("utf8");
    socket.on("data", (data) => {
      for (const line of data.split("\r\n").filter(Boolean)) {
        if (/^RCPT/i.test(line)) socket.write(`451 4.7.1 ${TEXTS.slice(0, 5).join(" ").replaceAll("\u0000", "").replaceAll(END, "")} ${"W".repeat(2000)}${END}\r\n`);
        else if (/^QUIT/i.test(line)) socket.end("221 bye\r\n");
        else socket.write("250 ok\r\n");
      }
    });
  });
  return new Promise((resolve) => server.listen(25, address, () => resolve(server)));
}

const freePort = () => new Promise((resolve) => {
  const server = net.createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

// submit sends messages in one SMTP session.
export function submit(port, messages) {
  return new Promise((resolve, reject) => {
    const lines = ["EHLO client.example"];
    for (const m of messages) {
      lines.push(`MAIL FROM:<${m.from}>`, ...m.to.map((to) => `RCPT TO:<${to}>`), "DATA",
        `From: ${m.from}\r\nTo: ${m.to[0]}\r\nSubject: ${m.subject}\r\nMessage-ID: <${Math.random().toString(36).slice(2)}@client.example>\r\n${m.header ?? ""}\r\n${"The quick brown fox. ".repeat(20)}\r\n.`);
    }
    lines.push("QUIT");
    const socket = net.connect(port, "127.0.0.1");
    socket.setEncoding("utf8");
    let text = "";
    socket.on("data", (data) => {
      text += data;
      for (let end = text.indexOf("\r\n"); end >= 0; end = text.indexOf("\r\n")) {
        const reply = text.slice(0, end);
        text = text.slice(end + 2);
        if (reply[3] === "-") continue;
        if (reply[0] > "3") return reject(new Error(reply));
        if (lines.length) socket.write(lines.shift() + "\r\n");
      }
    });
    socket.on("error", reject);
    socket.on("close", resolve);
  });
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// start starts all of it. binary is the program.
export async function start(binary) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "posthaste-ui."));
  const children = [];
  const run = (args, log) => {
    const out = fs.openSync(path.join(work, log), "a");
    const child = spawn(binary, args, { stdio: ["ignore", out, out] });
    children.push(child);
    return child;
  };
  const names = await nameServer();
  const bad = await hostileServer(`${base}.${RECEIVERS.findIndex((r) => r.server) + 10}`);
  RECEIVERS.forEach((r, i) => r.flags && run(["sink", "--listen", `${base}.${i + 10}:25`, "--hostname", "mx." + r.domain, "--interval", "0", ...r.flags], "sinks.log"));
  const [smtp, admin] = [await freePort(), await freePort()];
  const file = path.join(work, "posthaste.toml");
  fs.writeFileSync(file, `# Mail of a small company: the configuration of the test of the dashboard.
myhostname = "mail.example.com"
queue_directory = "${work}/queue"
listen = ["127.0.0.1:${smtp}"]
admin_listen = "127.0.0.1:${admin}"
admin_tokens = "${work}/tokens"
dns.servers = ["127.0.0.1:${names.address().port}"]
smtp_permit_private_hosts = true
spool.ballast_size = "64K"
queue_minfree = "16M"
in_flow_delay = 0
minimal_backoff_time = "20s"
shutdown_time = "1s"
smtpd_recipient_limit = 0

[transport.smtp]
destination_concurrency_limit = 20

[transport.bulk]
type = "smtp"
process_limit = 4
destination_recipient_limit = 1

# A loopback address is connected to only for what a route names.
[routes]
${RECEIVERS.map((r) => `"${r.domain}" = "${r.transport ?? "smtp"}:${r.domain}"`).join("\n")}
`);
  const token = (name, scope) => execFileSync(binary, ["token", "add", name, "--scope", scope, "--config", file], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).split(/\s+/).find((w) => w.length >= 40);
  const tokens = { read: token("visitor", "read"), operate: token("operator", "operate") };
  const daemon = run(["serve", "--config", file], "daemon.log");
  const address = `http://127.0.0.1:${admin}`;
  const log = () => fs.readFileSync(path.join(work, "daemon.log"), "utf8");
  const ask = async (at, scope = "operate") => {
    const answer = await fetch(address + at, { headers: { Authorization: "Bearer " + tokens[scope] } });
    if (!answer.ok) throw new Error(`${at}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const stop = async () => {
    clearInterval(stream);
    names.close();
    bad.close();
    for (const child of children) child.kill("SIGTERM");
    await Promise.all(children.map((c) => c.exitCode !== null || c.signalCode !== null || new Promise((resolve) => c.on("exit", resolve))));
    fs.rmSync(work, { recursive: true, force: true });
  };
  let stream;
  try {
    for (let i = 0; ; i++) {
      if (await fetch(address + "/readyz").then((r) => r.ok, () => false)) break;
      if (i > 200 || daemon.exitCode !== null) throw new Error("the daemon is not ready:\n" + log());
      await pause(100);
    }
    const to = (domain, n) => Array.from({ length: n }, (_, i) => `user${i}@${domain}`);
    // A mailing that takes minutes; and, once it has begun, single messages of its sender, which go first.
    await submit(smtp, [{ from: "news@shop.example.com", to: to("wingtip.example", 1500), subject: "The autumn catalog", header: "List-Id: <news.shop.example.com>\r\n" }]);
    await submit(smtp, to("tailspin.example", 6).map((a, i) => ({ from: `billing+${i}@example.com`, to: [a], subject: `Invoice ${1000 + i}` })));
    await submit(smtp, to("fabrikam.example", 25).map((a, i) => ({ from: `support@example.com`, to: [a], subject: `Your ticket ${i}` })));
    await submit(smtp, to("contoso.example", 150).map((a, i) => ({ from: ["app@example.com", "alerts@example.net"][i % 2], to: [a], subject: `Report ${i}` })));
    await submit(smtp, [{ from: `"<img/src=x onerror=window.ran=1>\\">"@example.com`, to: [`"<svg/onload=window.ran=1>"@hostile.example`], subject: "<script>window.ran=1</script>" }]);
    let n = 0;
    stream = setInterval(() => {
      const mails = [];
      for (let i = 0; i < 9; i++) {
        const domain = ["northwind.example", "northwind.example", "adatum.example", "contoso.example", "northwind.example"][n++ % 5];
        mails.push({ from: ["app@example.com", "alerts@example.net", "hr@example.org"][n % 3], to: [`user${n}@${domain}`], subject: `Notice ${n}` });
      }
      if (n % 27 === 0) mails.push({ from: "news@shop.example.com", to: to("wingtip.example", n % 108 === 0 ? 2 : 14).map((a) => `late${n}${a}`), subject: "Your order", header: "List-Id: <news.shop.example.com>\r\n" });
      submit(smtp, mails).catch(() => {});
    }, 500);
  } catch (error) {
    await stop();
    throw error;
  }
  return { address, smtp, tokens, ask, stop, log, file, binary };
}

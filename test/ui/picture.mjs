// Takes the picture of the dashboard for the documents, after some minutes of mail: node picture.mjs FILE
import { createRequire } from "node:module";
import { start } from "./rig.mjs";

const { chromium } = createRequire(process.env.MODULES + "/")("playwright-core");
const rig = await start(process.env.BINARY);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
try {
  await new Promise((resolve) => setTimeout(resolve, Number(process.env.SECONDS_OF_MAIL ?? 150) * 1000));
  const page = await browser.newPage({ viewport: { width: 1180, height: 760 }, colorScheme: "light" });
  await page.goto(rig.address + "/");
  await page.locator("input[name=token]").fill(rig.tokens.operate);
  await page.keyboard.press("Enter");
  await page.locator(".plot").first().waitFor();
  await page.waitForTimeout(1500);
  await page.screenshot({ path: process.argv[2] });
} finally {
  await browser.close();
  await rig.stop();
}

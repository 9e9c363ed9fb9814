// Links for viewers, in a browser that has no login.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { agent, browser, call, open, operator, port, session, until } from './harness.mjs';

const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

async function viewer(url) {
	const context = await browser.newContext({ viewport: { width: 360, height: 800 }, bypassCSP: false });
	context.setDefaultTimeout(180_000);
	const page = await context.newPage();
	const broken = [];
	page.on('pageerror', (err) => broken.push(String(err)));
	page.on('console', (m) => { if (/Content Security Policy|Trusted/.test(m.text())) broken.push(m.text()); });
	page.on('dialog', (d) => { broken.push(`dialog: ${d.message()}`); d.dismiss(); });
	await page.goto(url);
	return { page, broken, close: () => context.close() };
}

test('W-03 W-07: a link is made with one click, shows a session live and masked, and ends at once', async () => {
	const own = await open();
	const s = await session();
	await own.page.goto(`http://127.0.0.1:${port}/sessions/${s.id}`);
	await own.page.getByText('Share', { exact: true }).click();
	await own.page.getByLabel(/^For whom/).fill('Grace <b>');
	await own.page.getByRole('button', { name: 'Make a link' }).click();
	const url = await own.page.getByLabel('Link for viewers').inputValue();
	const { page, broken, close } = await viewer(url);
	const done = await call(s, "echo '<img src=x onerror=alert(1)>' key=ghp_0123456789abcdefghijABCDEFGHIJ456789");
	const shown = page.locator(`[data-call="${done.call_id}"]`);
	await shown.waitFor();
	await shown.locator('summary').click();
	await shown.locator('[data-ran] pre').waitFor().catch(async (err) => { assert.fail(`${err.message}: ${await page.content()}`); });
	const text = await shown.innerText();
	assert.match(text, /<img src=x onerror=alert\(1\)>/);
	assert.doesNotMatch(await page.content(), /ghp_0123456789/);
	assert.equal(await page.locator('form, img, [data-undo], [data-cancel], [data-answer]').count(), 0);
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 360);
	await own.page.goto(`http://127.0.0.1:${port}/shares`);
	const row = own.page.locator('[data-share]').first();
	assert.match(await row.innerText(), /Grace <b>.*1 open now/s);
	await row.getByRole('button', { name: 'Revoke' }).click();
	await until('the open page says that the link ended', async () => /does not work/.test(await page.locator('main').innerText()));
	assert.equal((await page.goto(url)).status(), 403);
	assert.deepEqual([...broken, ...own.broken], []);
	await Promise.all([own.close(), close()]);
});

test('W-03: a password is asked for, and the pages of links are accessible', async () => {
	const s = await session();
	await call(s, 'echo behind');
	const { url } = await operator('POST', `/v1/sessions/${s.id}/shares`, { password: 'correct horse' });
	const { page, broken, close } = await viewer(url);
	await page.getByLabel('Password of this link').fill('wrong horse');
	await page.getByRole('button', { name: 'Open' }).click();
	await page.getByRole('alert').waitFor();
	await page.getByLabel('Password of this link').fill('correct horse');
	await page.getByRole('button', { name: 'Open' }).click();
	await page.locator('[data-call]').waitFor();
	await page.reload();
	await page.locator('[data-call]').waitFor();
	assert.deepEqual(broken, []);
	await close();
	const plain = await operator('POST', `/v1/sessions/${s.id}/shares`, {});
	for (const at of [plain.url, url, `http://127.0.0.1:${port}/shares`, `http://127.0.0.1:${port}/sessions/${s.id}`]) {
		const one = await open({ viewport: { width: 360, height: 800 }, bypassCSP: true });
		await one.page.goto(at);
		await one.page.evaluate(axe);
		const found = await one.page.evaluate(() => axe.run());
		const serious = found.violations.filter((v) => ['serious', 'critical'].includes(v.impact));
		assert.deepEqual(serious.map((v) => [v.id, v.nodes[0].html]), [], at);
		const wide = await one.page.evaluate(() => document.documentElement.scrollWidth);
		assert.ok(wide <= 360, `${at} is ${wide} wide`);
		await one.close();
	}
	await agent('DELETE', `/v1/sessions/${s.id}`);
});

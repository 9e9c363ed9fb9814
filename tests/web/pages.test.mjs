// The pages of variables, policies, the network, the record and health.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agent, call, open, port, session, until } from './harness.mjs';

const at = (path) => `http://127.0.0.1:${port}${path}`;
const hostile = '<img src=x onerror=alert(1)>\u202e';

test('Variables are shown with who wrote them, filtered and page by page', async () => {
	const { page, broken, close } = await open();
	const s = await session();
	for (let n = 0; n < 60; n += 1) await agent('PUT', `/v1/sessions/${s.id}/vars/plain${n}`, { value: 'x', tags: ['many'] });
	await agent('PUT', `/v1/sessions/${s.id}/vars/hostile`, { value: `${hostile} value`, desc: hostile });
	await call(s, 'echo printed');
	await page.goto(at(`/variables?session=${s.id}`));
	assert.match(await page.locator('main').innerText(), /6\d variables of/);
	assert.equal(await page.locator('[data-variable]').count(), 50);
	await page.getByRole('link', { name: 'Older' }).click();
	await until('the older ones are shown', async () => (await page.locator('[data-variable]').count()) < 50);
	await page.getByLabel('Search').fill('hostile');
	await page.getByRole('button', { name: 'Show' }).click();
	await until('one is shown', async () => (await page.locator('[data-variable]').count()) === 1);
	const row = page.locator('[data-variable=hostile]');
	assert.match(await row.innerText(), /<img src=x onerror=alert\(1\)>\\u\{202e\}/);
	assert.match(await row.innerText(), /model|person/, 'who wrote it');
	await row.getByRole('link').click();
	await page.locator('.value pre').waitFor();
	assert.match(await page.locator('.value pre').innerText(), /<img src=x onerror=alert\(1\)>\\u\{202e\} value/);
	await page.getByLabel('Search').fill('');
	await page.getByLabel('Tag').fill('many');
	await page.getByRole('button', { name: 'Show' }).click();
	await until('those with the tag', async () => /60 variables/.test(await page.locator('main').innerText()));
	assert.equal(await page.locator('main img').count(), 0);
	assert.deepEqual(broken, []);
	await close();
});

test('Policies are listed with their rules, and hooks', async () => {
	const { page, close } = await open();
	await page.goto(at('/policies'));
	const all = await page.locator('#rules tbody tr:visible').count();
	assert.ok(all > 5, `${all} rules`);
	await page.getByLabel('Search').fill('secret');
	await until('fewer rules are shown', async () => (await page.locator('#rules tbody tr:visible').count()) < all);
	assert.match(await page.locator('main').innerText(), /Revision \S+/);
	await close();
});

test('The network page shows where calls connected, by host and verdict', async () => {
	const { page, broken, close } = await open();
	const s = await session();
	const said = await call(s, 'curl -sS -m 20 http://up.test/; true');
	await page.goto(at('/network?host=UP.test'));
	const rows = page.locator('#network tbody tr');
	assert.match(await rows.first().innerText(), /allow[^]*up\.test:80/, JSON.stringify(said));
	await page.getByLabel('Verdict').selectOption('deny');
	await page.getByRole('button', { name: 'Show' }).click();
	await until('none was denied', async () => /None/.test(await page.locator('#network').innerText()));
	await page.getByLabel('Verdict').selectOption('');
	await page.getByLabel('Host').fill('elsewhere');
	await page.getByRole('button', { name: 'Show' }).click();
	await until('none went there', async () => /host=elsewhere/.test(page.url()) && /None/.test(await page.locator('#network').innerText()));
	assert.deepEqual(broken, []);
	await close();
});

test('The record is filtered, read page by page, and verified', async () => {
	const { page, broken, close } = await open();
	const s = await session();
	await agent('POST', `/v1/sessions/${s.id}/calls`, {
		calls: Array.from({ length: 70 }, (_, n) => ({ tool: 'Bash', args: { command: `: ${n}` } })),
	});
	await page.goto(at('/record'));
	await page.getByLabel('Session').fill(s.id);
	await page.getByRole('button', { name: 'Show' }).click();
	const lines = () => page.locator('#record tbody tr td:first-child').allInnerTexts();
	await until('a page of that session is shown', async () => (await lines()).length === 100);
	const first = await lines();
	await page.getByRole('link', { name: 'Older' }).click();
	await until('the older ones are shown', async () => (await lines())[0] !== first[0]);
	const older = await lines();
	assert.ok(Number(older[0]) < Number(first.at(-1)), `${older[0]} is older than ${first.at(-1)}`);
	assert.ok(older.length >= 40, `${older.length} lines are left`);
	await page.getByRole('button', { name: 'Verify the whole record' }).click();
	await until('it was verified', async () => /lines are as they were written/.test(await page.locator('#verified').innerText()));
	assert.deepEqual(broken, []);
	await close();
});

test('Health draws calls, verdicts and latency of the daemon', async () => {
	const { page, broken, close } = await open();
	const s = await session();
	await call(s, 'echo counted');
	await page.goto(at('/health'));
	const drawn = page.getByRole('img', { name: /^Calls: \d/ });
	await drawn.waitFor();
	assert.match(await drawn.locator('polyline').getAttribute('points'), /^[\d.]+,[\d.]+/);
	assert.match(await page.getByRole('img', { name: /^Half of the calls took/ }).getAttribute('aria-label'), /at most [\d.]+/);
	const height = (await drawn.boundingBox()).height;
	assert.ok(height > 30 && height < 80, `it is ${height} high`);
	assert.deepEqual(broken, []);
	await close();
});

test('A long session is read to its end, with as many elements as at its beginning, and searched', async () => {
	const { page, broken, close } = await open();
	const s = await session();
	await agent('POST', `/v1/sessions/${s.id}/calls`, {
		calls: Array.from({ length: 700 }, (_, n) => ({ tool: 'Read', args: { file_path: `/etc/shadow-${n}` } })),
	});
	await page.goto(at(`/sessions/${s.id}`));
	const last = page.getByText('/etc/shadow-0', { exact: true });
	await until('the first call is reached', async () => {
		await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
		return (await last.count()) === 1;
	});
	assert.ok(await page.locator('[data-call]').count() <= 500);
	await page.getByRole('button', { name: 'Show new calls' }).click();
	const first = async () => Number(/shadow-(\d+)/.exec(await page.locator('[data-call]').first().innerText())[1]);
	await until('the newest are shown again', async () => (await first()) > 500);
	await page.getByLabel(/^Search in 700 calls/).fill('SHADOW-12');
	await page.getByRole('button', { name: 'Show', exact: true }).click();
	await until('eleven are found', async () => (await page.locator('[data-call]').count()) === 11);
	assert.deepEqual(broken, []);
	await close();
});

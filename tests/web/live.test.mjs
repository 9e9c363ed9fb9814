// What appears by itself on a page that is open: sessions, and output while a call runs.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { agent, browser, call, home, open, operator, port, session, until } from './harness.mjs';

const at = (path) => `http://127.0.0.1:${port}${path}`;

test('W-02: a session appears in the list by itself, and goes when it is deleted', async () => {
	const { page, broken, close } = await open();
	await page.goto(at('/sessions'));
	await page.evaluate(() => { globalThis.sameDocument = true; });
	const [first, second] = [await session(), await session()];
	const row = (s) => page.locator(`#sessions [data-session="${s.id}"]`);
	await row(second).waitFor();
	assert.match(await row(first).innerText(), /ws/, 'its directory is shown');
	await agent('DELETE', `/v1/sessions/${first.id}`);
	await row(first).waitFor({ state: 'detached' });
	assert.equal(await row(second).count(), 1);
	assert.ok(await page.evaluate(() => globalThis.sameDocument), 'the page was not loaded again');
	assert.deepEqual(broken, []);
	await close();
});

test('W-01 W-05: output is shown while its call runs, on the page and by a link, and no secret in two pieces', async () => {
	const { page, broken, close } = await open();
	const s = await session();
	const { url } = await operator('POST', `/v1/sessions/${s.id}/shares`, {});
	const context = await browser.newContext();
	context.setDefaultTimeout(180_000);
	const viewer = await context.newPage();
	await page.goto(at(`/sessions/${s.id}`));
	await viewer.goto(url);
	const done = call(s, "until [ -e seen ]; do echo shown; sleep 0.05; done; printf 'first <b>\\nkey=ghp_0123456789'; " +
		"until [ -e go ]; do sleep 0.05; done; printf 'abcdefghijABCDEFGHIJ456789 then\\n\\342\\200\\256last'");
	for (const one of [page, viewer]) {
		await one.locator('[data-call] summary').click();
		await one.locator('[data-running] pre').getByText('shown').waitFor();
	}
	writeFileSync(join(home, 'ws', 'seen'), '');
	for (const one of [page, viewer]) await one.locator('[data-running] pre').getByText('first <b>').waitFor();
	for (const one of [page, viewer]) assert.doesNotMatch(await one.locator('[data-ran]').innerText(), /0123456789|abcdefghij/);
	writeFileSync(join(home, 'ws', 'go'), '');
	assert.equal((await done).status, 'SUCCESS');
	for (const one of [page, viewer]) {
		await until('it is shown as ended', async () => (await one.locator('[data-running]').count()) === 0
			&& /SUCCESS/.test(await one.locator('[data-ran]').innerText()));
		assert.match(await one.locator('[data-ran]').innerText(), /\\u\{202e\}last/);
		assert.doesNotMatch(await one.locator('[data-ran]').innerText(), /0123456789|abcdefghij/);
	}
	assert.deepEqual(broken, []);
	await Promise.all([close(), context.close()]);
});

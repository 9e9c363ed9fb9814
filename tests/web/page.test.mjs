// The page in a real browser, over a real daemon: make test-web.
//
// Screenshots go to SANDBOXD_SHOTS, where that is set.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { agent, browser, call, link, open, operator, port, session, settled, start, stop, until, waiting } from './harness.mjs';

const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

test('A link logs in once, and only a page of this origin answers', async () => {
	const url = link();
	const first = await fetch(url);
	assert.equal(first.status, 200);
	const cookie = first.headers.get('set-cookie');
	assert.match(cookie, /HttpOnly/);
	assert.match(cookie, /SameSite=Strict/);
	assert.equal((await fetch(url)).status, 403, 'a link that was used');
	const own = { Cookie: cookie.split(';')[0] };
	const root = `http://127.0.0.1:${port}`;
	const csrf = /name="csrf" content="([^"]+)"/.exec(await (await fetch(root, { headers: own })).text())[1];
	const asked = (headers, path = '/v1/approvals/apr_x', method = 'POST') => fetch(root + path, {
		method, headers: { ...own, 'Content-Type': 'application/json', ...headers }, body: method === 'POST' ? '{"approved":true}' : undefined,
	}).then((got) => got.status);
	assert.equal(await asked({ 'X-CSRF-Token': csrf }), 404, 'it comes as far as the route');
	assert.equal(await asked({}), 403, 'no token');
	assert.equal(await asked({ 'X-CSRF-Token': 'x' }), 403, 'another token');
	assert.equal(await asked({ 'X-CSRF-Token': csrf, 'Content-Type': 'text/plain' }), 415, 'a form');
	assert.equal(await asked({ 'X-CSRF-Token': csrf, Origin: 'http://127.0.0.1:1' }), 403, 'another port');
	assert.equal(await asked({ 'X-CSRF-Token': csrf, 'Sec-Fetch-Site': 'same-site' }), 403, 'the same site');
	assert.equal(await asked({ 'X-CSRF-Token': csrf }, '/v1/stop-all'), 405, 'no route of the page');
	assert.equal(await asked({ Cookie: 'sandboxd=x' }, '/v1/approvals', 'GET'), 401, 'no login');
	const rebound = await new Promise((done) => {
		request({ host: '127.0.0.1', port, path: '/', headers: { ...own, Host: `evil.example:${port}` } }, (res) => done(res.statusCode)).end();
	});
	assert.equal(rebound, 421, 'another name');
});

test('A question appears and is answered', async () => {
	const { page, broken, close } = await open();
	await page.waitForFunction(() => document.querySelector('#news').textContent === '');
	const s = await session();
	const answered = call(s, 'touch asked.txt');
	await waiting(page).first().waitFor();
	const shown = waiting(page).first();
	assert.match(await shown.innerText(), /touch asked\.txt/);
	await settled(page);
	await shown.getByRole('button', { name: /^Approve once/ }).click();
	assert.equal((await answered).status, 'SUCCESS');
	await until('it is shown as approved', async () => (await page.locator('[data-status=approved]').count()) === 1);
	const [done] = await operator('GET', '/v1/approvals?status=approved');
	assert.match(done.decided_by, /^Ada \(uid:/, 'the answer carries the name');
	assert.deepEqual(broken, []);
	await close();
});

test('A refusal carries its reason, and an edit is judged again', async () => {
	const { page, close } = await open();
	const s = await session();
	const refused = call(s, 'touch refused.txt');
	await waiting(page).first().waitFor();
	await settled(page);
	await page.getByLabel(/^Reason/).fill('not this one');
	await page.getByRole('button', { name: /^Refuse/ }).click();
	assert.match(JSON.stringify(await refused), /not this one/);
	await until('nothing waits', async () => (await waiting(page).count()) === 0);
	const edited = call(s, 'touch before.txt');
	await waiting(page).first().waitFor();
	await settled(page);
	const shown = waiting(page).first();
	await shown.getByText('Edit the arguments').click();
	await shown.getByLabel(/^Arguments/).fill('{"command": "touch after.txt && ls"}');
	await shown.getByRole('button', { name: 'Approve as edited' }).click();
	assert.match((await edited).final_text, /after\.txt/);
	await close();
});

test('Two people answer: the second is told, and nothing moves', async () => {
	const [a, b] = [await open(), await open()];
	const s = await session();
	const first = call(s, 'touch first.txt');
	await waiting(a.page).first().waitFor();
	await waiting(b.page).first().waitFor();
	const place = await waiting(a.page).first().boundingBox();
	const second = call(s, 'touch second.txt');
	await until('both wait', async () => (await waiting(a.page).count()) === 2);
	assert.deepEqual(await waiting(a.page).first().boundingBox(), place, 'the first stays where it was');
	await settled(a.page);
	await waiting(a.page).first().getByRole('button', { name: /^Refuse/ }).click();
	await first;
	await until('the other page knows', async () => (await waiting(b.page).count()) === 1);
	await settled(b.page);
	await waiting(b.page).first().getByRole('button', { name: /^Approve once/ }).click();
	assert.equal((await second).status, 'SUCCESS');
	await Promise.all([a.close(), b.close()]);
});

test('Text of others is shown and never runs', async () => {
	const { page, broken, close } = await open();
	const s = await session();
	const payloads = ['<img src=x onerror=alert(1)>', '<script>alert(1)</script>', '"><svg onload=alert(1)>', '{{.Person.CSRF}}',
		'javascript:alert(1)', '</pre><iframe srcdoc="<script>alert(1)</script>">'];
	const asked = payloads.map((text) => call(s, `touch x; echo '${text}'`));
	await until('all wait', async () => (await waiting(page).count()) === payloads.length)
		.catch(async (err) => { assert.fail(`${err.message}: ${await page.locator('#inbox').innerText()}`); });
	const text = await page.locator('#inbox').innerText();
	for (const p of payloads) assert.ok(text.includes(p), p);
	assert.equal(await page.locator('#inbox img, #inbox script, #inbox svg, #inbox iframe').count(), 0);
	const printed = await call(s, "printf '\\u202etxt.exe <b>bold</b>'");
	await page.goto(`http://127.0.0.1:${port}/sessions/${s.id}`);
	const shown = page.locator(`[data-call="${printed.call_id}"]`);
	await shown.locator('summary').click();
	await shown.locator('[data-ran] pre').first().waitFor();
	assert.match(await shown.innerText(), /\\u\{202e\}txt\.exe <b>bold<\/b>/);
	assert.equal(await page.locator('main img, main script:not([src^="/static/"]), main svg, main iframe').count(), 0);
	for (const q of await operator('GET', '/v1/approvals?status=pending&limit=100')) {
		await operator('POST', `/v1/approvals/${q.id}`, { approved: false });
	}
	await Promise.all(asked);
	assert.deepEqual(broken, []);
	await close();
});

test('A session shows its calls as they come, with what came of them, and no secret', async () => {
	const { page, broken, close } = await open();
	const s = await session();
	await call(s, 'echo one');
	await page.goto(`http://127.0.0.1:${port}/sessions/${s.id}`);
	await page.locator('[data-call]').waitFor();
	const done = await call(s, 'echo key=sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmn-AAAAAAAA');
	const shown = page.locator(`[data-call="${done.call_id}"]`);
	await shown.waitFor();
	await shown.locator('summary').click();
	await shown.locator('[data-ran] pre').first().waitFor();
	assert.match(await shown.innerText(), /SUCCESS/);
	assert.doesNotMatch(await page.content(), /abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH/);
	await shown.getByRole('link', { name: /^Why/ }).click();
	await page.locator('#whatif').waitFor();
	await page.getByLabel(/^Arguments/).fill('{"command": "touch what-if"}');
	await page.getByRole('button', { name: 'Judge it' }).click();
	await page.locator('#judged p').first().waitFor();
	assert.match(await page.locator('#judged').innerText(), /^ask/);
	assert.deepEqual(broken, []);
	await close();
});

test('A page that is open goes on when the daemon was restarted', async () => {
	const { page, close } = await open();
	await stop();
	await page.waitForFunction(() => document.querySelector('#news').textContent.includes('does not answer'));
	await start();
	const s = await session();
	const asked = call(s, 'touch later.txt');
	await waiting(page).first().waitFor();
	await settled(page);
	await waiting(page).first().getByRole('button', { name: /^Approve once/ }).click();
	assert.equal((await asked).status, 'SUCCESS');
	await close();
});

test('Every page on a desk and a phone, light and dark, is accessible', async () => {
	const s = await session();
	await call(s, 'echo shown');
	const asked = call(s, 'touch seen.txt && git push --force origin main');
	const done = await call(s, 'ls');
	for (const width of [1280, 360]) {
		for (const colorScheme of ['light', 'dark']) {
			const { page, close } = await open({ viewport: { width, height: 800 }, colorScheme, bypassCSP: true });
			for (const path of ['/', '/sessions', `/sessions/${s.id}`, `/decisions/${done.call_id}`, '/variables', '/policies', '/network', '/record', '/health']) {
				await page.goto(`http://127.0.0.1:${port}${path}`);
				await page.evaluate(axe);
				const found = await page.evaluate(() => axe.run());
				const serious = found.violations.filter((v) => ['serious', 'critical'].includes(v.impact));
				assert.deepEqual(serious.map((v) => [v.id, v.nodes[0].html]), [], `${path} at ${width} ${colorScheme}`);
				const wide = await page.evaluate(() => document.documentElement.scrollWidth);
				assert.ok(wide <= width, `${path} is ${wide} wide at ${width}`);
				if (process.env.SANDBOXD_SHOTS) {
					const name = path === '/' ? 'inbox' : path.split('/')[1] + (path.split('/').length > 2 ? '-one' : '');
					await page.screenshot({ path: join(process.env.SANDBOXD_SHOTS, `${name}-${width}-${colorScheme}.png`) });
				}
			}
			await close();
		}
	}
	const [q] = await operator('GET', '/v1/approvals?status=pending');
	await operator('POST', `/v1/approvals/${q.id}`, { approved: false });
	await asked;
});

test('A question is answered by the keyboard alone', async () => {
	const { page, close } = await open();
	const s = await session();
	const asked = call(s, 'touch by-keyboard.txt');
	await waiting(page).first().waitFor();
	await settled(page);
	for (let n = 0; n < 30; n += 1) {
		await page.keyboard.press('Tab');
		const name = await page.evaluate(() => document.activeElement.textContent);
		if (/^Approve once/.test(name)) break;
	}
	await page.keyboard.press('Enter');
	assert.equal((await asked).status, 'SUCCESS');
	await close();
});

test('The first load is small', async () => {
	const context = await browser.newContext();
	const page = await context.newPage();
	await page.goto(link());
	await page.waitForURL(`http://127.0.0.1:${port}/`);
	const bytes = await page.evaluate(() => performance.getEntries()
		.filter((e) => e.entryType === 'resource' || e.entryType === 'navigation')
		.reduce((sum, e) => sum + e.encodedBodySize, 0));
	assert.ok(bytes > 0 && bytes < 60_000, `${bytes} bytes`);
	await context.close();
});

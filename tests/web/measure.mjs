// Measures of the page, over a real daemon and a real browser: make bench-web. They depend on the machine,
// so nothing fails by them.
import { readFileSync, readdirSync } from 'node:fs';
import { request } from 'node:http';
import { test } from 'node:test';
import { agent, call, daemon, link, open, port, session, waiting } from './harness.mjs';

const at = (path) => `http://127.0.0.1:${port}${path}`;
const wait = (ms) => new Promise((done) => { setTimeout(done, ms); });
const median = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];
const say = (what, value) => console.log(`${what}: ${value}`);

test('interactive', async () => {
	const { page, close } = await open();
	const took = [];
	for (let n = 0; n < 11; n += 1) {
		await page.goto(at('/'));
		took.push(await page.evaluate(() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd));
	}
	say('interactive, median ms of 11 loads', median(took).toFixed(0));
	await close();
});

test('a question visible', async () => {
	const { page, close } = await open();
	await page.waitForFunction(() => document.querySelector('#news').textContent === '');
	// The page notes by itself when a question has appeared: both clocks are those of this machine.
	await page.evaluate(() => {
		globalThis.seen = [];
		new MutationObserver((all) => {
			if (all.some((m) => [...m.addedNodes].some((n) => n.dataset?.status === 'pending'))) {
				requestAnimationFrame(() => globalThis.seen.push(Date.now()));
			}
		}).observe(document.querySelector('#inbox'), { childList: true });
	});
	const s = await session();
	const took = [];
	for (let n = 0; n < 20; n += 1) {
		const began = Date.now();
		const asked = call(s, `touch visible-${n}`);
		await page.waitForFunction((n) => globalThis.seen.length > n, n);
		took.push(await page.evaluate(() => globalThis.seen.at(-1)) - began);
		await page.waitForTimeout(750);
		await waiting(page).first().getByRole('button', { name: /^Refuse/ }).click();
		await asked;
	}
	say('a question visible, median ms of 20', median(took));
	await close();
});

// A page at rest is its stream: it asks for nothing else until something happens.
test('50 pages at rest', async () => {
	const cookie = (await fetch(link())).headers.get('set-cookie').split(';')[0];
	const streams = await Promise.all(Array.from({ length: 50 }, () => new Promise((done, failed) => {
		const req = request(at('/v1/approvals/stream'), { headers: { Cookie: cookie, Accept: 'text/event-stream' } }, (res) => {
			res.resume();
			done(req);
		});
		req.on('error', failed).end();
	})));
	const tasks = `/proc/${daemon.pid}/task`;
	const spent = () => readdirSync(tasks) // ms on a processor, of all threads
		.reduce((sum, id) => sum + Number(readFileSync(`${tasks}/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e6, 0);
	await wait(2000);
	const [before, began] = [spent(), Date.now()];
	await wait(30_000);
	say('50 pages at rest, % of a core', (100 * (spent() - before) / (Date.now() - began)).toFixed(2));
	for (const req of streams) {
		req.on('error', () => {});
		req.destroy();
	}
});

test('a session of 10,000 calls', async () => {
	const s = await session();
	for (let n = 0; n < 10; n += 1) {
		await agent('POST', `/v1/sessions/${s.id}/calls`, {
			calls: Array.from({ length: 1000 }, (_, m) => ({ tool: 'Read', args: { file_path: `/etc/shadow-${n * 1000 + m}` } })),
		});
	}
	const { page, context, close } = await open();
	await page.addInitScript(() => {
		globalThis.long = [];
		new PerformanceObserver((got) => globalThis.long.push(...got.getEntries().map((e) => e.duration)))
			.observe({ type: 'longtask', buffered: true });
	});
	const client = await context.newCDPSession(page);
	const heap = async () => {
		await client.send('HeapProfiler.collectGarbage');
		const { usedSize } = await client.send('Runtime.getHeapUsage');
		return (usedSize / (1 << 20)).toFixed(1);
	};
	await page.goto(at(`/sessions/${s.id}`));
	await page.waitForTimeout(500);
	const [opened, began] = [await heap(), Date.now()];
	await page.evaluate(() => { globalThis.long = []; });
	const last = page.getByText('/etc/shadow-0', { exact: true });
	let middle = '';
	while (await last.count() === 0 && Date.now() - began < 300_000) {
		await page.mouse.wheel(0, 4000);
		await page.waitForTimeout(20);
		if (!middle && await page.locator('#newer:visible').count()) middle = await heap();
	}
	const long = await page.evaluate(() => globalThis.long);
	say('10,000 calls: reached the first', `${await last.count() === 1} after ${((Date.now() - began) / 1000).toFixed(0)} s`);
	say('10,000 calls: tasks over 50 ms while it scrolled', `${long.length}, the longest ${Math.max(0, ...long).toFixed(0)} ms`);
	say('10,000 calls: heap of the page in MiB, opened, with 500 calls, at the end', `${opened}, ${middle}, ${await heap()}`);
	say('10,000 calls: elements that are kept', await page.locator('[data-call]').count());
	await close();
});

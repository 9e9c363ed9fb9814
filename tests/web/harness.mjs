// A real daemon with its page, and a real browser, for tests and measures.
//
// SANDBOXD_BIN is the directory of the programs, CHROMIUM the browser.
import assert from 'node:assert/strict';
import { spawn, execFileSync } from 'node:child_process';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';

const bin = process.env.SANDBOXD_BIN;

export let home, port, daemon, browser;
const env = () => ({
	...process.env, SANDBOXD_CONFIG: join(home, 'config.yaml'), SANDBOXD_STATE_DIR: join(home, 'state'),
	SANDBOXD_RUNTIME_DIR: join(home, 'run'), PATH: `${bin}:${process.env.PATH}`, LD_LIBRARY_PATH: '',
});

const freePort = () => new Promise((done) => {
	const s = createServer().listen(0, '127.0.0.1', () => { const p = s.address().port; s.close(() => done(p)); });
});

// patience ends a test that waits for something that never comes. It says nothing of how long things may take.
const patience = 180_000;

export async function until(what, holds) {
	for (let end = Date.now() + patience; Date.now() < end;) {
		if (await holds().catch(() => false)) return;
		await new Promise((r) => setTimeout(r, 25));
	}
	assert.fail(`it never comes: ${what}`);
}

export async function start() {
	daemon = spawn(join(bin, 'sandboxd'), ['serve'], { env: env(), stdio: ['ignore', 'ignore', 'pipe'] });
	let said = '';
	daemon.stderr.on('data', (d) => { said += d; });
	await until(`the daemon answers: ${said}`, async () => api('run/operator.sock', 'GET', '/v1/healthz'));
}

export const stop = () => new Promise((done) => { daemon.on('exit', done); daemon.kill('SIGTERM'); });

// api asks a socket of the daemon, as agents and operators do.
const api = (socket, method, path, body) => new Promise((done, failed) => {
	const req = request({ socketPath: join(home, socket), method, path, headers: { 'Content-Type': 'application/json' } }, (res) => {
		let text = '';
		res.setEncoding('utf8').on('data', (d) => { text += d; }).on('end', () => {
			const said = JSON.parse(text);
			if (res.statusCode < 300) done(said.data); else failed(new Error(text));
		});
	});
	req.on('error', failed).end(body && JSON.stringify(body));
});
export const agent = (method, path, body) => api('run/agent.sock', method, path, body);
export const operator = (method, path, body) => api('run/operator.sock', method, path, body);

export const link = () => JSON.parse(execFileSync(join(bin, 'sandboxd'), ['web', '--json', '--as', 'Ada'], { env: env() })).url;

// open logs in on a page of its own; options are those of a browser context.
export async function open(options = {}) {
	const context = await browser.newContext(options);
	context.setDefaultTimeout(patience);
	const page = await context.newPage();
	const broken = [];
	page.on('pageerror', (err) => broken.push(String(err)));
	page.on('console', (m) => { if (/Content Security Policy|Trusted/.test(m.text())) broken.push(m.text()); });
	page.on('dialog', (d) => { broken.push(`dialog: ${d.message()}`); d.dismiss(); });
	await page.goto(link());
	await page.waitForURL(`http://127.0.0.1:${port}/`);
	return { page, context, broken, close: () => context.close() };
}

export const session = () => agent('POST', '/v1/sessions', { cwd: join(home, 'ws') });
export const call = (s, command) => agent('POST', `/v1/sessions/${s.id}/calls`, { tool: 'Bash', args: { command } });
export const waiting = (page) => page.locator('[data-approval][data-status=pending]');
// settled waits until buttons take a press again after what has appeared.
export const settled = (page) => page.waitForTimeout(750);

before(async () => {
	home = mkdtempSync(join(tmpdir(), 'sandboxd-page-'));
	mkdirSync(join(home, 'ws'));
	port = await freePort();
	writeFileSync(join(home, 'config.yaml'), `
web: {listen: "127.0.0.1:${port}"}
workspace: {roots: [${join(home, 'ws')}]}
policy: {rules: {ask: ['Bash(touch *)']}}
sandbox:
  network:
    allowedDomains: [up.test]
    unlisted: deny
    hosts: {"up.test:80": "127.0.0.1:1", "up.test:81": "127.0.0.1:1"}
`);
	await start();
	browser = await chromium.launch({
		executablePath: process.env.CHROMIUM,
		args: process.getuid() === 0 ? ['--no-sandbox'] : [],
	});
});

after(async () => {
	await browser?.close();
	await stop();
	rmSync(home, { recursive: true, force: true });
});

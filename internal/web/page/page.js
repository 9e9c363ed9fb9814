// The page asks the daemon for what it shows and puts it in its place. Whatever is shown was made by
// the daemon; what others wrote reaches the document as text alone.
import { endOf, follow, follows, settle, stop } from '/static/live.js';

const token = document.querySelector('meta[name=csrf]').content;
const news = document.querySelector('#news');
const trusted = globalThis.trustedTypes?.createPolicy('page', { createHTML: (made) => made });

// A button does nothing for this long after something near it has changed: a finger may be on its way.
const settles = 700;
let changed = 0;

async function ask(method, path, body) {
	const sent = { method, headers: { 'X-CSRF-Token': token, Accept: 'application/json' } };
	if (body !== undefined) {
		sent.headers['Content-Type'] = 'application/json';
		sent.body = JSON.stringify(body);
	}
	const got = await fetch(path, sent);
	if (got.status === 204) return null;
	const said = await got.json();
	if (!got.ok) throw new Error([said.error.message, said.error.hint].filter(Boolean).join('. '));
	return said.data;
}

async function load(path) {
	const got = await fetch(path, { headers: { Accept: 'text/html' } });
	if (got.status === 401) return location.reload();
	const text = await got.text();
	const made = new DOMParser().parseFromString(trusted ? trusted.createHTML(text) : text, 'text/html');
	if (!got.ok) throw new Error(made.querySelector('main p')?.textContent ?? got.statusText);
	return made;
}

function tell(text) { news.textContent = text; }

// listen hands every event to hear, and calls again after each connection: events of the time
// without one are lost.
function listen(path, types, hear, again) {
	const source = new EventSource(path);
	source.onopen = () => { tell(''); again(); };
	source.onerror = () => tell('The daemon does not answer. This page goes on when it does.');
	for (const type of [...types, 'dropped']) {
		source.addEventListener(type, (e) => (type === 'dropped' ? again() : hear(JSON.parse(e.data))));
	}
	addEventListener('pagehide', () => source.close());
}

// --- inbox

const inbox = document.querySelector('#inbox');

const card = (id) => inbox.querySelector(`[data-approval="${CSS.escape(id)}"]`);

function counted() {
	const waiting = inbox.querySelectorAll('[data-status=pending]').length;
	document.querySelector('.empty').hidden = inbox.children.length > 0;
	document.title = (waiting ? `(${waiting}) ` : '') + 'Inbox · sandboxd';
}

// put shows a question as it stands now: a new one below the others, a known one in its place. One
// that somebody is about to answer keeps what was typed.
async function put(id) {
	const made = (await load(`/approvals/${encodeURIComponent(id)}`))?.querySelector('[data-approval]');
	if (!made) return;
	const old = card(id);
	if (!old && made.dataset.status !== 'pending') return;
	if (old?.dataset.status === made.dataset.status) return;
	changed = performance.now();
	if (old) {
		const held = old.contains(document.activeElement);
		old.replaceWith(document.adoptNode(made));
		if (held) { made.tabIndex = -1; made.focus(); }
	} else {
		inbox.append(document.adoptNode(made));
	}
	counted();
}

async function reconcile() {
	const waiting = await ask('GET', '/v1/approvals?status=pending&limit=100');
	const ids = new Set(waiting.map((q) => q.id));
	for (const shown of inbox.querySelectorAll('[data-status=pending]')) ids.add(shown.dataset.approval);
	for (const id of ids) await put(id).catch((err) => tell(err.message));
}

async function answer(button) {
	const own = button.closest('[data-approval]');
	const form = button.form;
	const said = own.querySelector('.said');
	const kind = button.dataset.answer;
	const body = { approved: kind !== 'refuse' };
	if (form.elements.reason.value) body.reason = form.elements.reason.value;
	if (kind === 'session' || kind === 'always') body.remember = kind;
	if (kind === 'edit') {
		try { body.args = JSON.parse(form.elements.args.value); } catch (err) { said.textContent = err.message; return; }
	}
	for (const b of form.querySelectorAll('button')) b.disabled = true;
	try {
		await ask('POST', `/v1/approvals/${encodeURIComponent(own.dataset.approval)}`, body);
		await put(own.dataset.approval);
	} catch (err) {
		said.textContent = err.message;
		for (const b of form.querySelectorAll('button')) b.disabled = false;
		await put(own.dataset.approval).catch(() => {});
	}
}

if (inbox) {
	counted();
	listen('/v1/approvals/stream', ['approval_asked', 'approval_decided'],
		(e) => put(e.approval_id).catch((err) => tell(err.message)), () => reconcile().catch((err) => tell(err.message)));
	inbox.addEventListener('submit', (e) => e.preventDefault());
}

// --- a session

const calls = document.querySelector('#calls');
const kept = 500; // calls that the document holds; older ones are loaded again when they are wanted

async function ran(own) {
	const path = `/calls/${encodeURIComponent(own.dataset.call)}`;
	const made = (await load(path)).querySelector('[data-ran]');
	if (follows(own.dataset.call) && made.querySelector('[data-running]')) return;
	own.querySelector('.ran').replaceChildren(document.adoptNode(made));
	if (own.querySelector('details[open]')) follow(own, `${path}/output`, () => ran(own).catch((err) => tell(err.message)));
}

const shows = (id) => calls.querySelector(`[data-call="${CSS.escape(id)}"]`);
const newer = document.querySelector('#newer');
let cut = false; // newer calls than those that are shown were taken out, or never loaded

// once runs work one at a time: what is asked for meanwhile is done by one more run.
function once(work) {
	let runs = false;
	let again = false;
	return async () => {
		again = true;
		if (runs) return;
		runs = true;
		try {
			while (again) { again = false; await work(); }
		} catch (err) {
			tell(err.message);
		} finally {
			runs = false;
		}
	};
}

// Calls are put in a few at a time, so that the page goes on scrolling meanwhile.
const atOnce = 10;
const frame = () => new Promise((done) => {
	if (document.hidden) setTimeout(done); else requestAnimationFrame(() => setTimeout(done));
});

// missingOf are the calls of a page that are not shown.
function missingOf(made) {
	const have = new Set([...calls.children].map((one) => one.dataset.call));
	return [...made.querySelectorAll('#calls > [data-call]')].filter((one) => !have.has(one.dataset.call));
}

const newest = once(async () => {
	const made = await load(`/sessions/${encodeURIComponent(calls.dataset.of)}`);
	settle(calls, made, newest);
	const fresh = made.querySelectorAll('#calls > [data-call]');
	const missing = missingOf(made);
	if (calls.querySelector('[data-call]') && missing.length === fresh.length) { // some may lie between
		cut = true;
		newer.hidden = false;
		return;
	}
	if (missing.length) calls.querySelector('.empty')?.remove();
	calls.prepend(...missing.map((one) => document.adoptNode(one)));
	if (calls.children.length <= kept) return;
	while (calls.children.length > kept) calls.lastElementChild.remove();
	const link = document.querySelector('a.older');
	if (link) link.href = `?offset=${kept}`;
});

async function older(link) {
	const made = await load(link.href);
	for (const missing = missingOf(made); missing.length; await frame()) {
		calls.append(...missing.splice(0, atOnce).map((one) => document.adoptNode(one)));
		while (calls.children.length > kept) {
			calls.firstElementChild.remove();
			cut = true;
			newer.hidden = false;
		}
	}
	const next = made.querySelector('a.older');
	if (next) link.href = new URL(next.getAttribute('href'), location.href); else link.remove();
}

if (calls) {
	const refresh = () => {
		if (cut || scrollY > 200 || location.search) newer.hidden = false; else newest();
	};
	newer.addEventListener('click', () => {
		if (cut || location.search) { location.assign(location.pathname); return; }
		newer.hidden = true;
		scrollTo(0, 0);
		newest();
	});
	listen(`/v1/events?session_id=${encodeURIComponent(calls.dataset.of)}`, ['call_begin', 'call_waiting', 'call_end'], (e) => {
		if (e.type === 'call_end') endOf(e.call_id);
		const own = shows(e.call_id);
		if (own?.querySelector('details[open]')) ran(own).catch((err) => tell(err.message));
		if (!own || own.matches('[data-live]')) refresh();
	}, () => { if (!cut && scrollY <= 200 && !location.search) newest(); });
	calls.addEventListener('toggle', (e) => {
		const own = e.target.closest('[data-call]');
		if (e.target.open) ran(own).catch((err) => tell(err.message)); else stop(own.dataset.call);
	}, true);
	const link = document.querySelector('a.older');
	if (link) {
		const near = new IntersectionObserver(async (seen) => {
			if (!seen.at(-1).isIntersecting) return;
			near.unobserve(link); // and again when it has loaded: it may still be near, and would not be told
			const again = await older(link).then(() => 0, (err) => { tell(err.message); return 2000; });
			if (link.isConnected) setTimeout(() => near.observe(link), again);
		}, { rootMargin: '600px' });
		near.observe(link);
	}
}

// --- sessions: new ones appear, in their order, when nobody is reading below

const sessions = document.querySelector('#sessions');
if (sessions) {
	const refresh = async () => {
		if (scrollY > 200 || document.querySelector('#search').value || location.search) return;
		const made = await load('/sessions');
		sessions.replaceChildren(...[...made.querySelector('#sessions').children].map((one) => document.adoptNode(one)));
	};
	let wait;
	const soon = () => { clearTimeout(wait); wait = setTimeout(() => refresh().catch((err) => tell(err.message)), 200); };
	listen('/v1/events', ['session_created', 'session_changed', 'session_deleted'], soon, soon);
}

// --- what if

const form = document.querySelector('#whatif');
form?.addEventListener('submit', async (e) => {
	e.preventDefault();
	const out = document.querySelector('#judged');
	try {
		const found = await ask('POST', '/v1/policies/explain', {
			session_id: form.dataset.session, tool: form.dataset.tool, nearest: true,
			args: JSON.parse(form.querySelector('textarea').value),
		});
		const said = [`${found.decision.verdict}`];
		for (const r of found.decision.reasons ?? []) said.push(`${r.rule}: ${r.message}${r.hint ? ` (${r.hint})` : ''}`);
		if (found.nearest) said.push(`The nearest call that would be allowed: ${found.nearest}`);
		out.replaceChildren(...said.map((text) => Object.assign(document.createElement('p'), { textContent: text })));
	} catch (err) {
		out.textContent = err.message;
	}
});

// --- the record: the whole of it is read while the person sees how far that is

document.querySelector('#verify')?.addEventListener('click', (e) => {
	const button = e.currentTarget;
	const bar = document.querySelector('#verifying');
	const out = document.querySelector('#verified');
	const source = new EventSource('/v1/audit/verify');
	const end = (text) => {
		source.close();
		button.disabled = false;
		bar.hidden = true;
		out.textContent = text;
	};
	button.disabled = true;
	bar.hidden = false;
	bar.value = 0;
	out.textContent = '';
	source.addEventListener('progress', (got) => {
		const { bytes, of } = JSON.parse(got.data);
		bar.max = Math.max(of, 1);
		bar.value = bytes;
	});
	source.addEventListener('failed', (got) => end(JSON.parse(got.data).message));
	source.addEventListener('end', (got) => {
		const found = JSON.parse(got.data);
		if (found.bad) end(`The record was changed: ${found.bad.line ? `line ${found.bad.line}: ` : ''}${found.bad.reason}`);
		else end(`${found.lines} lines are as they were written; ${found.checkpoints} checkpoints are signed.`);
	});
	source.onerror = () => end('It was not verified to the end. Somebody else may be verifying it: try again.');
});

// --- health: drawn again by the daemon while somebody looks

const health = document.querySelector('#health');
if (health) {
	setInterval(() => {
		if (document.visibilityState !== 'visible' || health.contains(document.activeElement)) return;
		load('/health').then((made) => health.replaceChildren(
			...[...made.querySelector('#health').childNodes].map((one) => document.adoptNode(one)),
		)).catch((err) => tell(err.message));
	}, 15_000);
}

// --- everywhere

for (const input of document.querySelectorAll('[data-search]')) {
	input.addEventListener('input', () => {
		const wanted = input.value.toLowerCase();
		for (const row of document.querySelectorAll(input.dataset.search)) {
			row.hidden = !row.textContent.toLowerCase().includes(wanted);
		}
	});
}

const act = async (button, method, path, body) => {
	button.disabled = true;
	try { await ask(method, path, body); } catch (err) { tell(err.message); }
	const own = button.closest('[data-call]');
	if (own) await ran(own).catch((err) => tell(err.message));
};

document.addEventListener('click', async (e) => {
	const button = e.target.closest('button');
	if (!button || button.disabled) return;
	const { answer: kind, cancel, undo, logout } = button.dataset;
	if (kind !== undefined && performance.now() - changed > settles) answer(button);
	if (cancel !== undefined) act(button, 'POST', `/v1/calls/${encodeURIComponent(cancel)}/cancel`);
	if (undo !== undefined) act(button, 'POST', `/v1/calls/${encodeURIComponent(undo)}/undo`, {});
	if (logout !== undefined) {
		await ask('POST', '/logout').catch((err) => tell(err.message));
		location.assign('/');
	}
});

// The page of somebody who looks at one session by a link. It only reads. When the link ends, the page is
// loaded again and says so.
import { endOf, follow, follows, settle, stop } from '/static/live.js';

const news = document.querySelector('#news');
const calls = document.querySelector('#calls');
const newer = document.querySelector('#newer');
const trusted = globalThis.trustedTypes?.createPolicy('viewer', { createHTML: (made) => made });
const kept = 500; // calls that the document holds

const tell = (text) => { news.textContent = text; };
const one = (id) => calls.querySelector(`[data-call="${CSS.escape(id)}"]`);

async function load(path) {
	const got = await fetch(path);
	if (got.status === 401 || got.status === 403) {
		location.reload();
		throw new Error('This link has ended.');
	}
	const text = await got.text();
	const made = new DOMParser().parseFromString(trusted ? trusted.createHTML(text) : text, 'text/html');
	if (!got.ok) throw new Error(made.querySelector('main p')?.textContent ?? got.statusText);
	return made;
}

const said = (work) => work.catch((err) => tell(err.message));

async function ran(own) {
	const path = `${calls.dataset.base}/calls/${encodeURIComponent(own.dataset.call)}`;
	const made = (await load(path)).querySelector('[data-ran]');
	if (follows(own.dataset.call) && made.querySelector('[data-running]')) return;
	own.querySelector('.ran').replaceChildren(document.adoptNode(made));
	if (own.querySelector('details[open]')) follow(own, `${path}/output`, () => said(ran(own)));
}

async function newest() {
	const made = await load(calls.dataset.base);
	settle(calls, made, () => said(newest()));
	for (const fresh of [...made.querySelectorAll('#calls > [data-call]')].reverse()) {
		if (one(fresh.dataset.call)) continue;
		calls.querySelector('.empty')?.remove();
		calls.prepend(document.adoptNode(fresh));
	}
	while (calls.children.length > kept) calls.lastElementChild.remove();
}

function refresh() {
	if (scrollY > 200) newer.hidden = false; else said(newest());
}

if (!new URLSearchParams(location.search).has('offset')) {
	const source = new EventSource(`${calls.dataset.base}/events`);
	const heard = (e) => {
		const id = JSON.parse(e.data).call_id ?? '';
		if (e.type === 'call_end') endOf(id);
		const own = one(id);
		if (own?.querySelector('details[open]')) said(ran(own));
		if (!own || own.matches('[data-live]')) refresh();
	};
	source.onopen = () => { tell(''); refresh(); };
	source.onerror = () => {
		tell('The daemon does not answer. This page goes on when it does.');
		// A browser does not try again what was refused: the link has ended.
		if (source.readyState === EventSource.CLOSED) said(newest());
	};
	for (const type of ['call_begin', 'call_waiting', 'call_end']) source.addEventListener(type, heard);
	source.addEventListener('dropped', refresh);
	addEventListener('pagehide', () => source.close());
}

newer.addEventListener('click', () => {
	newer.hidden = true;
	scrollTo(0, 0);
	said(newest());
});
calls.addEventListener('toggle', (e) => {
	const own = e.target.closest('[data-call]');
	if (e.target.open) said(ran(own)); else stop(own.dataset.call);
}, true);

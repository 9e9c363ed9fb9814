// What a call prints, while it runs.
const most = 64 << 10; // characters that are shown; the older ones go
const atOnce = 3; // calls that are followed: browsers open few connections to one host
const heard = new Set(); // calls that have ended
const followed = new Map(); // by call: how to stop

export const follows = (id) => followed.has(id);

export function stop(id) {
	followed.get(id)?.();
	followed.delete(id);
}

// endOf says that a call has ended.
export const endOf = (id) => heard.add(id);

// settle puts what was decided in the place of calls that ran, by a page that was made since, and calls again
// where that page was too early to know.
export function settle(calls, made, again) {
	let early = false;
	for (const one of calls.querySelectorAll('[data-live]')) {
		const id = one.dataset.call;
		const now = made.querySelector(`[data-call="${CSS.escape(id)}"]`);
		if (!now || now.matches('[data-live]')) {
			early ||= heard.has(id);
			continue;
		}
		stop(id);
		const [open, held] = [one.querySelector('details').open, one.contains(document.activeElement)];
		one.replaceWith(document.adoptNode(now));
		now.querySelector('details').open = open; // which loads what came of it
		if (held) now.querySelector('summary').focus();
	}
	if (early) setTimeout(again, 300);
}

// follow shows in the element of a call what comes from a path, and calls ended at its end.
export function follow(own, path, ended) {
	const id = own.dataset.call;
	const place = own.querySelector('[data-running]');
	if (!place || followed.has(id)) return;
	if (followed.size >= atOnce) stop(followed.keys().next().value);
	const pre = Object.assign(document.createElement('pre'), { tabIndex: 0, hidden: true });
	pre.setAttribute('aria-label', 'Output so far');
	place.append(pre);
	let shown = 0;
	const source = new EventSource(path);
	followed.set(id, () => source.close());
	source.onopen = () => { pre.replaceChildren(); shown = 0; }; // whoever connects again gets all of it
	source.addEventListener('output', (e) => {
		if (!pre.isConnected) { stop(id); return; }
		const { text, missed } = JSON.parse(e.data);
		const below = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
		pre.hidden = false;
		pre.append(missed ? `[some output is missing]\n${text}` : text);
		for (shown += text.length; shown > most && pre.childNodes.length > 1;) {
			shown -= pre.firstChild.length;
			pre.firstChild.remove();
		}
		if (below) pre.scrollTop = pre.scrollHeight;
	});
	source.addEventListener('end', () => { stop(id); ended(); });
	source.onerror = () => { if (source.readyState === EventSource.CLOSED) stop(id); };
	addEventListener('pagehide', () => stop(id));
}

// Links for viewers: made on the page of a session, ended on the page of links.
const token = document.querySelector('meta[name=csrf]').content;

async function ask(method, path, body) {
	const sent = { method, headers: { 'X-CSRF-Token': token } };
	if (body !== undefined) {
		sent.headers['Content-Type'] = 'application/json';
		sent.body = JSON.stringify(body);
	}
	const got = await fetch(path, sent);
	const said = await got.json();
	if (!got.ok) throw new Error([said.error.message, said.error.hint].filter(Boolean).join('. '));
	return said.data;
}

const form = document.querySelector('#share');
form?.addEventListener('submit', async (e) => {
	e.preventDefault();
	const said = form.querySelector('.said');
	const body = { hours: Number(form.elements.hours.value) };
	for (const name of ['for', 'password']) if (form.elements[name].value) body[name] = form.elements[name].value;
	try {
		const made = await ask('POST', `/v1/sessions/${encodeURIComponent(form.dataset.session)}/shares`, body);
		const shown = Object.assign(document.createElement('input'), { readOnly: true, value: made.url });
		shown.setAttribute('aria-label', 'Link for viewers');
		said.replaceChildren('The link is shown this once: ', shown);
		shown.select();
	} catch (err) {
		said.textContent = err.message;
	}
});

document.querySelector('#shares')?.addEventListener('click', async (e) => {
	const button = e.target.closest('[data-revoke]');
	if (!button) return;
	button.disabled = true;
	try {
		await ask('DELETE', `/v1/shares/${encodeURIComponent(button.dataset.revoke)}`);
		location.reload();
	} catch (err) {
		document.querySelector('#news').textContent = err.message;
		button.disabled = false;
	}
});

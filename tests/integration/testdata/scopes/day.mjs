// A day of the public client of the five-scope API against a daemon on a Unix socket.
// usage: node day.mjs SDK.mjs HELPERS.mjs SOCKET
import assert from "node:assert/strict";
import http from "node:http";
import { pathToFileURL } from "node:url";

const [sdk, helpers, socketPath] = process.argv.slice(2);
const { createTavernClient } = await import(pathToFileURL(sdk));
const { flattenVariableSnapshot, sortVariableInspectorRows, flattenPageStagedVariableWrites, groupVariablePromotionTrace } =
  await import(pathToFileURL(helpers));

const overSocket = (input, init = {}) => new Promise((resolve, reject) => {
  const request = input instanceof Request ? input : null;
  const url = new URL(request ? request.url : input);
  const send = (body) => {
    const headers = Object.fromEntries(new Headers(init.headers ?? request?.headers));
    if (body) headers["content-length"] = Buffer.byteLength(body);
    const req = http.request({ socketPath, path: url.pathname + url.search, method: init.method ?? request?.method ?? "GET", headers }, (res) => {
      const parts = [];
      res.on("data", (part) => parts.push(part));
      res.on("end", () => resolve(new Response(parts.length ? Buffer.concat(parts) : null, { status: res.statusCode, headers: res.headers })));
    });
    req.on("error", reject);
    req.end(body);
  };
  if (request?.body) request.text().then(send, reject); else send(init.body);
});
const post = async (path, body) => {
  const answer = await overSocket("http://x" + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const read = await answer.json();
  assert.ok(answer.ok, `POST ${path}: ${answer.status} ${JSON.stringify(read)}`);
  return read.data;
};
const client = createTavernClient({ baseUrl: "http://x", fetchImpl: overSocket });
const refused = (code, act) => assert.rejects(act, (err) => (assert.equal(err.code, code, JSON.stringify(err) + err.message), true));

const session = await client.sessions.create({ title: "A tale", metadata: { theme: "fantasy" } });
const sessionId = session.id;
assert.equal((await client.sessions.getDetail({ sessionId })).title, "A tale");
assert.ok((await client.sessions.list()).some((s) => s.id === sessionId));

await client.variables.upsert({ scope: "global", scopeId: "global", key: "mood", value: "calm" });
await client.variables.upsert({ scope: "chat", scopeId: sessionId, key: "gold", value: 500 });
const road = await client.variables.upsert({ scope: "branch", sessionId, branchId: "main", key: "road", value: { to: "north" } });
assert.deepEqual(road.scopeRef, { sessionId, branchId: "main" });
assert.deepEqual(await client.variables.getDetail({ variableId: road.id }), road);
const many = await client.variables.upsertMany({ items: [{ scope: "chat", scopeId: sessionId, key: "gold", value: 501 }, { scope: "chat", scopeId: sessionId, key: "day", value: 1 }] });
assert.deepEqual(many.meta, { created: 1, updated: 1, total: 2 });

const floor = await client.floors.create({ sessionId, floorNo: 0, branchId: "main" });
assert.equal(floor.state, "draft");
const page = await client.pages.create({ floorId: floor.id, pageNo: 0, pageKind: "output" });
assert.equal(page.isActive, true);
const other = await client.pages.create({ floorId: floor.id, pageNo: 0, pageKind: "output", version: 2 });
assert.equal(other.isActive, false);
await post(`/sessions/${sessionId}/calls`, { tool: "set_variable", args: { key: "mood", value: "tense", reason: "a storm" }, context: { page_id: page.id } });
let staged = await client.variables.getPageStagedWrites({ pageId: page.id });
assert.equal(staged.items.length, 1);
assert.equal(flattenPageStagedVariableWrites(staged)[0].status, "staged");
const before = await client.variables.resolveContext({ sessionId, pageId: page.id, includeLayers: true });
assert.equal(before.resolved.find((v) => v.key === "mood").value, "calm");
await post(`/pages/${page.id}/accept`, {});
await post(`/floors/${floor.id}/commit`, {});
staged = await client.variables.getPageStagedWrites({ pageId: page.id });
assert.equal(staged.items[0].status, "promoted");
const promoted = await client.variables.getPagePromotions({ pageId: page.id });
assert.equal(promoted.items[0].toScope, "floor");
assert.ok(groupVariablePromotionTrace(promoted));
const after = await client.variables.resolveContext({ sessionId, floorId: floor.id, includeLayers: true });
const rows = sortVariableInspectorRows(flattenVariableSnapshot(after));
assert.equal(after.resolved.find((v) => v.key === "mood").sourceScope, "floor");
assert.ok(rows.some((r) => r.key === "gold"), JSON.stringify(rows));
assert.equal((await client.floors.getDetail({ floorId: floor.id })).state, "committed");
await assert.rejects(() => post(`/floors/${floor.id}/commit`, {}), /409 .*invalid_state/);

const fork = await client.floors.branch({ floorId: floor.id, branchId: "south" });
assert.equal(fork.branchId, "south");
await client.variables.upsert({ scope: "branch", sessionId, branchId: "south", key: "road", value: "south" });
assert.deepEqual((await client.sessions.listBranches({ sessionId })).map((b) => b.branchId).sort(), ["main", "south"]);
const next = await client.floors.create({ sessionId, floorNo: 1, branchId: "main", parentFloorId: floor.id });
const reset = await client.sessions.resetBranch({ sessionId, branchId: "main", targetFloorId: floor.id, expectedHeadFloorId: next.id });
assert.deepEqual(reset.supersededFloorIds, [next.id]);
await refused("branch_head_conflict", () => client.sessions.resetBranch({ sessionId, branchId: "main", targetFloorId: floor.id, expectedHeadFloorId: next.id }));
const shown = await client.promptRuntime.previewText({ sessionId, text: "{{getvar::road}} {{setvar::road::west}}{{getvar::road}}", branchId: "south" });
assert.equal(shown.text, "south west");
assert.deepEqual(shown.runtimeTrace.macro.mutationPreview, [{ kind: "set", scope: "branch", key: "road", value: "west" }]);
await refused("variable_host_not_found", () => client.variables.upsert({ scope: "floor", scopeId: "nowhere", key: "k", value: 1 }));
await refused("protected_branch", () => client.branches.remove({ branchId: "main", sessionId }));
assert.equal((await client.branches.remove({ branchId: "south", sessionId })).branchId, "south");
assert.equal((await client.variables.list({ scope: "chat", scopeId: sessionId, sortBy: "key", sortOrder: "asc" })).map((v) => v.key).join(), "day,gold");
assert.equal((await client.pages.list({ floorId: floor.id })).length, 2);
assert.equal((await client.floors.list({ sessionId })).length, 1);
assert.equal(await client.variables.remove({ variableId: road.id }), true);
assert.equal(await client.floors.remove({ floorId: floor.id }), true);
assert.equal(await client.sessions.remove({ sessionId }), true);
await refused("session_not_found", () => client.sessions.getDetail({ sessionId }));
console.log("a day of the public client: done");

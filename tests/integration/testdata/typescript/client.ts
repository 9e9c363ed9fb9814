// What an agent author would write with the client that openapi-typescript makes from
// docs/openapi.json. It prints what it sees; the Go test reads that.
import createClient from "openapi-fetch";
import { Agent, fetch as undici } from "undici";
import type { paths } from "./api";

function connect(socketPath: string) {
  const dispatcher = new Agent({ connect: { socketPath } });
  const send = async (request: Request) => {
    const body = request.method === "GET" ? undefined : await request.text();
    const headers = Object.fromEntries(request.headers);
    const answer = await undici(request.url, { method: request.method, headers, body, dispatcher });
    return new Response(await answer.text(), { status: answer.status, headers: Object.fromEntries(answer.headers) });
  };
  return createClient<paths, "application/json">({ baseUrl: "http://sandboxd/v1", fetch: send });
}

function must<T>(what: string, answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(`${what}: ${JSON.stringify(answer.error)}`);
  console.log("ok", what);
  return answer.data;
}

async function main(agentSocket: string, operatorSocket: string) {
  const agent = connect(agentSocket);
  const operator = connect(operatorSocket);

  must("healthz", await agent.GET("/healthz"));
  const session = must("session", await agent.POST("/sessions", { body: { title: "typed" } })).data;
  const path = { id: session.id };
  const tools = must("tools", await agent.GET("/sessions/{id}/tools", { params: { path, query: { format: "openai" } } }));
  if (!Array.isArray(tools.data)) throw new Error("the tools are no list");

  const one = must("call", await agent.POST("/sessions/{id}/calls", {
    params: { path }, body: { tool: "Bash", args: { command: "echo typed" } },
  })).data;
  if (Array.isArray(one) || !one.final_text.includes("typed")) throw new Error(JSON.stringify(one));
  const several = must("calls", await agent.POST("/sessions/{id}/calls", {
    params: { path }, body: { calls: [{ tool: "Bash", args: { command: "true" } }, { tool: "Nope" }] },
  })).data;
  if (!Array.isArray(several) || several[1].status !== "NOT_FOUND") throw new Error(JSON.stringify(several));

  must("put", await agent.PUT("/sessions/{id}/vars/{name}", { params: { path: { ...path, name: "v" } }, body: { value: "x" } }));
  const value = must("get", await agent.GET("/sessions/{id}/vars/{name}", { params: { path: { ...path, name: "v" } } }));
  if (value.data.value !== "x") throw new Error(JSON.stringify(value));
  const verdict = must("decide", await agent.POST("/decide", {
    body: { session_id: session.id, tool: "Bash", args: { command: "git push --force" } },
  })).data.decision.verdict;
  if (verdict !== "ask") throw new Error(`verdict ${verdict}`);
  must("approvals", await operator.GET("/approvals", { params: { query: { limit: 10 } } }));

  const refused = await agent.GET("/approvals", {});
  if (refused.response.status !== 403 || refused.error?.error.code !== "operator_only") throw new Error("an agent is served");
  console.log("ok", "refused");
  must("delete", await agent.DELETE("/sessions/{id}", { params: { path } }));
}

main(process.argv[2], process.argv[3]).then(() => process.exit(0), (e) => { console.error(e); process.exit(1); });

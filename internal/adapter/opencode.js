// Written by: sandboxd hook install opencode. It is taken out by: sandboxd hook uninstall opencode.
// OpenCode runs it before and after each of its tool calls. Whatever fails here stops the call.
import { spawn } from "node:child_process"

const command = @COMMAND@

const ask = (event) =>
  new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", command], { stdio: ["pipe", "pipe", "pipe"] })
    let out = "", err = ""
    child.stdout.on("data", (text) => (out += text))
    child.stderr.on("data", (text) => (err += text))
    child.stdin.on("error", () => {}) // it ended before it read all: its exit status says why
    child.on("error", reject)
    child.on("close", (status) => {
      if (status !== 0) reject(new Error(err.trim() || "sandboxd hook ended with status " + status))
      else if (out.trim() === "") resolve({})
      else try { resolve(JSON.parse(out)) } catch (e) { reject(e) }
    })
    child.stdin.end(JSON.stringify(event))
  })

export const Sandboxd = async ({ directory }) => ({
  "tool.execute.before": async (call, output) => {
    const answer = await ask({
      hook_event_name: "PreToolUse", session_id: call.sessionID, cwd: directory, tool_name: call.tool,
      tool_input: output.args, tool_use_id: call.callID,
    })
    const said = answer.hookSpecificOutput
    if (said && said.permissionDecision !== "allow") throw new Error(said.permissionDecisionReason)
    if (said && said.updatedInput) Object.assign(output.args, said.updatedInput)
  },
  "tool.execute.after": async (call, output) => {
    const answer = await ask({
      hook_event_name: "PostToolUse", session_id: call.sessionID, cwd: directory, tool_name: call.tool,
      tool_input: call.args, tool_use_id: call.callID, tool_response: String(output.output ?? ""),
    })
    if (answer.decision === "block") output.output = answer.reason
    const more = answer.hookSpecificOutput && answer.hookSpecificOutput.additionalContext
    if (more) output.output += "\n" + more
  },
})

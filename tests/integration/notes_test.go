package integration

import (
	"bufio"
	"encoding/json"
	"io"
)

// notesServer says that this process is an MCP server of notes, on stdin and stdout.
const notesServer = "SANDBOXD_TEST_NOTES"

// serveNotes is an MCP server with two tools and a resource, until stdin ends.
func serveNotes(in io.Reader, out io.Writer) {
	tool := func(name string) map[string]any {
		text := map[string]any{"type": "string"}
		return map[string]any{
			"name": name, "description": name + " notes",
			"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"q": text}},
		}
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Protocol  string         `json:"protocolVersion"`
				Name      string         `json:"name"`
				Arguments map[string]any `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue // a notification
		}
		var result any = map[string]any{}
		switch m.Method {
		case "initialize":
			result = map[string]any{
				"protocolVersion": m.Params.Protocol, "serverInfo": map[string]any{"name": "notes", "version": "1"},
				"capabilities": map[string]any{"tools": map[string]any{}, "resources": map[string]any{}},
			}
		case "tools/list":
			result = map[string]any{"tools": []any{tool("search"), tool("remove")}}
		case "tools/call":
			text, _ := m.Params.Arguments["q"].(string)
			result = map[string]any{"content": []any{map[string]any{"type": "text", "text": m.Params.Name + " did " + text}}}
		case "resources/list":
			result = map[string]any{"resources": []any{map[string]any{"uri": "note://1", "name": "the first"}}}
		case "resources/templates/list":
			result = map[string]any{"resourceTemplates": []any{}}
		case "resources/read":
			result = map[string]any{"contents": []any{map[string]any{"uri": "note://1", "text": "text of the first"}}}
		}
		answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
		if err != nil {
			return
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return
		}
	}
}

package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// output turns the answer of a server into the answer of a tool. Links become text: nobody follows them.
func output(ctx context.Context, answer *mcp.CallToolResult) (tool.Output, error) {
	if answer == nil {
		return tool.Output{}, fmt.Errorf("the answer is empty")
	}
	var out tool.Output
	var size int64
	for _, c := range answer.Content {
		part := content(c)
		size += int64(len(part.Text) + len(part.Data))
		out.Content = append(out.Content, part)
	}
	if err := need(ctx, 2*size); err != nil {
		return out, err
	}
	if answer.StructuredContent != nil {
		out.Data = answer.StructuredContent
	}
	if answer.IsError {
		return tool.Output{}, &tool.Error{Code: "mcp_tool_error", Msg: "MCP tool error: " + text(out.Content)}
	}
	if out.Data != nil && text(out.Content) == "" {
		pretty, err := json.MarshalIndent(out.Data, "", "  ")
		if err != nil {
			return out, err
		}
		out.Content = append([]tool.Content{{Type: "text", Text: string(pretty)}}, out.Content...)
	}
	return out, nil
}

func content(c mcp.Content) tool.Content {
	switch c := c.(type) {
	case *mcp.TextContent:
		return tool.Content{Type: "text", Text: strings.ToValidUTF8(c.Text, "\uFFFD")}
	case *mcp.ImageContent:
		return tool.Content{Type: "image", Data: c.Data, MIMEType: c.MIMEType}
	case *mcp.AudioContent:
		return tool.Content{Type: "audio", Data: c.Data, MIMEType: c.MIMEType}
	case *mcp.ResourceLink:
		return tool.Content{Type: "resource", URI: c.URI, Name: c.Name, MIMEType: c.MIMEType}
	case *mcp.EmbeddedResource:
		if r := c.Resource; r != nil {
			if r.Blob == nil {
				text := fmt.Sprintf("[%s]\n%s", r.URI, r.Text)
				return tool.Content{Type: "text", Text: strings.ToValidUTF8(text, "\uFFFD")}
			}
			return tool.Content{Type: "resource", URI: r.URI, Data: r.Blob, MIMEType: r.MIMEType}
		}
	}
	return tool.Content{Type: "text", Text: "[a part of a kind that is not known]"}
}

func text(parts []tool.Content) string {
	var all []string
	for _, p := range parts {
		if p.Type == "text" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}

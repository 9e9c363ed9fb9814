package serve

import (
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// result returns what a model gets of a call: the daemon's text, then where to find the whole of a shortened text,
// then images and other content that is not text.
func (f *Face) result(r client.Result) *mcp.CallToolResult {
	if r.Status != client.StatusSuccess {
		return refused(said(r))
	}
	out := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.FinalText}}}
	if r.Truncated && r.VarResult != "" {
		out.Content = append(out.Content, &mcp.ResourceLink{
			URI: f.varURI(r.VarResult), Name: r.VarResult, Description: "The whole result", MIMEType: "text/plain",
		})
	}
	for _, c := range r.Content {
		if made := content(c); made != nil {
			out.Content = append(out.Content, made)
		}
	}
	return out
}

// content returns a part of a result that is not text. It returns nil for a part that the text contains.
func content(c client.Content) mcp.Content {
	switch {
	case c.Type == "image":
		return &mcp.ImageContent{Data: c.Data, MIMEType: c.MIMEType}
	case c.Type == "audio":
		return &mcp.AudioContent{Data: c.Data, MIMEType: c.MIMEType}
	case c.Type == "resource" && c.URI != "" && c.Data == nil && c.Text == "":
		return &mcp.ResourceLink{URI: c.URI, Name: c.Name, MIMEType: c.MIMEType}
	case c.Type == "resource" && c.URI != "":
		return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
			URI: c.URI, MIMEType: c.MIMEType, Text: c.Text, Blob: c.Data,
		}}
	}
	return nil
}

// refused returns an error as a result. Its text tells the model why.
func refused(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// withHint returns an error's message and its hint.
func withHint(err error) string {
	var b strings.Builder
	b.WriteString(err.Error())
	if e, ok := errors.AsType[*client.Error](err); ok && e.Hint != "" {
		b.WriteString("\nHint: ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

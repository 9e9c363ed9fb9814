package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// varURI returns the URI of a variable.
func (f *Face) varURI(name string) string {
	return (&url.URL{Scheme: "var", Host: f.Session, Path: "/" + name}).String()
}

// readVar reads a variable by a call of ReadVar: rules judge it, the record has it, and the authors of its text
// count as read by the model. Only variables of this session have a URI here.
func (f *Face) readVar(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	u, err := url.Parse(req.Params.URI)
	if err != nil || u.Host != f.Session || len(u.Path) < 2 {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	const whole = 0 // characters of the result; 0 means all
	args, err := json.Marshal(map[string]any{"name": u.Path[1:], "limit": whole})
	if err != nil {
		return nil, err
	}
	r, err := f.API.Call(ctx, f.Session, "ReadVar", args)
	switch {
	case err != nil:
		return nil, failure(err)
	case r.Error != nil && r.Error.Code == "variable_not_found":
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	case r.Status != client.StatusSuccess:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: said(r)}
	}
	text, isText := r.Data.(string)
	if !isText {
		text = r.FinalText
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
		{URI: req.Params.URI, MIMEType: "text/plain", Text: text},
	}}, nil
}

// prompt returns the text of a skill, followed by the user's text. It does not begin the skill; a model does that
// with the tool Skill.
func (f *Face) prompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	var k skill
	path := f.path("/skills/" + url.PathEscape(req.Params.Name))
	if args := req.Params.Arguments["arguments"]; args != "" {
		path += "?arguments=" + url.QueryEscape(args)
	}
	if err := f.API.Do(ctx, http.MethodGet, path, nil, &k); err != nil {
		return nil, failure(err)
	}
	if k.Prompt == nil {
		return nil, fmt.Errorf("the skill %s has no text", req.Params.Name)
	}
	return &mcp.GetPromptResult{Description: k.Description, Messages: []*mcp.PromptMessage{
		{Role: "user", Content: &mcp.TextContent{Text: *k.Prompt}},
	}}, nil
}

// failure returns an error of the daemon as an error of the protocol.
func failure(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: withHint(err)}
}

// said returns the reason why a call has no result.
func said(r client.Result) string {
	if r.Error == nil {
		return cmp.Or(r.FinalText, string(r.Status))
	}
	return cmp.Or(r.FinalText, withHint(r.Error))
}

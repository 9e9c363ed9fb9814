package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandboxd/sandboxd/client"
)

// search is the one tool that is not offered. It brings definitions of deferred tools; clients of MCP can call only
// listed tools, so all are listed.
const search = "ToolSearch"

func (f *Face) path(rest string) string { return "/sessions/" + url.PathEscape(f.Session) + rest }

// refresh offers what the session has now. It announces changes only.
func (f *Face) refresh(ctx context.Context) error {
	var defs []json.RawMessage
	if err := f.API.Do(ctx, http.MethodGet, f.path("/tools?format=mcp&deferred=true"), nil, &defs); err != nil {
		return err
	}
	var skills []skill
	if err := f.API.Do(ctx, http.MethodGet, f.path("/skills"), nil, &skills); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	tools := map[string]string{}
	for _, def := range defs {
		var t offered
		if err := json.Unmarshal(def, &t); err != nil {
			return fmt.Errorf("read a definition of a tool: %w", err)
		}
		if t.Name == search {
			continue
		}
		if f.tools[t.Name] != string(def) {
			if err := f.add(t); err != nil { // the other tools work
				f.Log.Warn("a tool is not offered over MCP", "tool", t.Name, "error", err)
				continue
			}
		}
		tools[t.Name] = string(def)
	}
	gone(f.tools, tools, f.server.RemoveTools)
	f.tools = tools

	prompts := map[string]string{}
	for _, k := range skills {
		if !k.UserInvocable || !k.Available {
			continue
		}
		p := k.asPrompt()
		said, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if f.prompts[k.Name] != string(said) {
			f.server.AddPrompt(p, f.prompt)
		}
		prompts[k.Name] = string(said)
	}
	gone(f.prompts, prompts, f.server.RemovePrompts)
	f.prompts = prompts
	return nil
}

// gone removes entries that are not there any more.
func gone(was, is map[string]string, remove func(...string)) {
	var names []string
	for name := range was {
		if _, ok := is[name]; !ok {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		remove(names...)
	}
}

// watch refreshes the lists when the session or the configuration changes, until ctx ends. If the daemon restarts,
// it waits for it.
func (f *Face) watch(ctx context.Context) {
	defer close(f.ended)
	filter := client.EventFilter{Types: []string{"session_changed", "session_deleted", "reload"}}
	const patience = time.Second
	for ctx.Err() == nil {
		events, err := f.API.Events(ctx, filter)
		if err == nil {
			if err = f.refresh(ctx); err == nil { // for changes before the stream began
				for e, broken := range events {
					if broken != nil {
						break
					}
					if e.Type == "session_deleted" && e.Session == f.Session {
						f.gone.Store(true)
					} else if e.Session == "" || e.Session == f.Session {
						err = errors.Join(err, f.refresh(ctx))
					}
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			f.Log.Debug("the lists of MCP were not refreshed", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(patience):
		}
	}
}

// skill holds the fields of a skill that are used here.
type skill struct {
	Name          string  `json:"name"`
	Description   string  `json:"description"`
	ArgumentHint  string  `json:"argument_hint"`
	UserInvocable bool    `json:"user_invocable"`
	Available     bool    `json:"available"`
	Prompt        *string `json:"prompt"`
}

// asPrompt returns the skill as a prompt, with all arguments in one.
func (k skill) asPrompt() *mcp.Prompt {
	p := &mcp.Prompt{Name: k.Name, Description: k.Description}
	if k.ArgumentHint != "" {
		p.Arguments = []*mcp.PromptArgument{{Name: "arguments", Description: k.ArgumentHint}}
	}
	return p
}

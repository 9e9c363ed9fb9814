package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/internal/mcp/kept"
	"github.com/sandboxd/sandboxd/internal/mcp/servers"
	"github.com/sandboxd/sandboxd/internal/mcp/vet"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// pinned returns the identity to which the pins of a server belong. The digest of the program is no part of it:
// otherwise each update would count as a first sight, which pins whatever the new program says.
func (v *server) pinned() kept.Server {
	c := v.conf
	text, _ := json.Marshal([]any{v.name, c.Kind(), c.Command, c.Args, c.URL, c.ID}) // encoding texts cannot fail
	sum := sha256.Sum256(text)
	return kept.Server{Account: v.x.owner, Config: hex.EncodeToString(sum[:]), Name: v.name}
}

// judge decides which tools of the list models get, publishes them, and asks a person about the others.
func (v *server) judge(ctx context.Context) error {
	v.mu.Lock()
	defs := v.defs
	v.mu.Unlock()
	var withheld []Withheld
	refuse := func(name, format string, args ...any) {
		withheld = append(withheld, Withheld{fmt.Sprintf("%.80s", name), fmt.Sprintf(format, args...)})
	}
	count := map[string]int{}
	for _, d := range defs {
		count[d.Name]++
	}
	foreign := v.x.foreign(v)
	found := map[string]vet.Found{}
	var offered []kept.Tool
	flags := map[string]string{}
	for _, d := range defs {
		if !v.conf.Tools.Has(d.Name) {
			continue
		}
		if n := count[d.Name]; n != 1 { // two tools have this name, so nobody can tell which is meant
			if n > 1 {
				refuse(d.Name, "duplicate: the server offers %d tools of this name, and none is taken", n)
			}
			count[d.Name] = 0
			continue
		}
		f := v.vet(d)
		if f.Refused != "" {
			refuse(d.Name, "refused: %s", f.Refused)
			continue
		}
		if f.Flagged == "" {
			for _, m := range f.Mentions {
				if other := foreign(m); other != "" {
					f.Flagged = fmt.Sprintf("it speaks of another tool or server, %q", other)
					break
				}
			}
		}
		found[d.Name], flags[d.Name] = f, f.Flagged
		offered = append(offered, kept.Tool{Name: d.Name, Text: f.Text, Ask: f.Flagged != ""})
	}
	trust := v.x.g.config.Load().FirstSight == servers.FirstSightPin
	states, err := v.x.g.kept.Compare(ctx, v.pinned(), offered, trust)
	if err != nil {
		return fmt.Errorf("compare its tools with what is pinned: %w", err)
	}
	tools := map[string]tool.Tool{}
	var ask []question
	for _, t := range offered {
		state := states[t.Name]
		if state.Why == kept.Same {
			u := v.upstreamTool(t, found[t.Name])
			tools[u.spec.Name] = u
			continue
		}
		why := state.Why
		if flag := flags[t.Name]; why == kept.Flagged {
			why = flag
		} else if flag != "" {
			why += ", and " + flag
		}
		withheld = append(withheld, Withheld{t.Name, "flagged: " + why + "; a person has to let it in"})
		ask = append(ask, question{t, why, state.Was})
	}
	slices.SortFunc(withheld, func(a, b Withheld) int { return slices.Compare([]string{a.Tool}, []string{b.Tool}) })
	v.mu.Lock()
	for name, t := range tools { // an equal tool keeps its value
		if was, ok := v.tools[name].(*upstreamTool); ok && was.pin == t.(*upstreamTool).pin {
			tools[name] = was
		}
	}
	v.tools, v.withheld = tools, withheld
	v.mu.Unlock()
	v.x.publish()
	v.ask(ctx, ask)
	return nil
}

// vet judges a definition. It judges each text once.
func (v *server) vet(d vet.Definition) vet.Found {
	raw, err := json.Marshal(d)
	key := string(raw)
	v.mu.Lock()
	f, known := v.vetted[key]
	v.mu.Unlock()
	if known && err == nil {
		return f
	}
	f = vet.Tool(v.name, d)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.vetted == nil || len(v.vetted) > 2*len(v.defs) {
		v.vetted = map[string]vet.Found{}
	}
	v.vetted[key] = f
	return f
}

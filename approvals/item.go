package approvals

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/shellparse"
)

// Type is what a person is asked about.
type Type string

// The types.
const (
	TypeExecution  Type = "execution"  // may this call run
	TypeResult     Type = "result"     // may the model see this result
	TypeQuestion   Type = "question"   // the model asks something (AskUser)
	TypeConnection Type = "connection" // may a call that runs connect to this host
	TypeChanges    Type = "changes"    // may stay what a call has changed
)

// Status is where a question stands.
type Status string

// The statuses. Each question is pending first and one of the others for good.
const (
	StatusPending   Status = "pending"
	StatusApproved  Status = "approved"
	StatusRefused   Status = "refused"
	StatusExpired   Status = "expired"
	StatusCancelled Status = "cancelled" // nobody can use an answer any more
)

// Item is one question, with everything a person needs to answer it. Arguments
// and results are shown in full.
type Item struct {
	ID          string          `json:"id"`
	Type        Type            `json:"type"`
	Status      Status          `json:"status"`
	Account     string          `json:"account,omitempty"`
	SessionID   string          `json:"session_id"`
	SessionMade time.Time       `json:"session_created_at,omitzero"` // an id may be used again
	Agent       string          `json:"agent,omitempty"`             // that another one started, or that has a name
	Parents     []tool.Ancestor `json:"parents,omitempty"`           // the sessions above, the nearest first
	RunsAs      string          `json:"runs_as,omitempty"`           // whose rights the call has, if not the daemon's
	CallID      string          `json:"call_id"`
	Tool        string          `json:"tool_name"`
	Description string          `json:"tool_description,omitempty"`
	Args        json.RawMessage `json:"args"`
	Result      string          `json:"result,omitempty"`        // what the model would read
	ResultState tool.Status     `json:"result_status,omitempty"` //
	// Connection is where the call wants to connect.
	Connection *tool.Connecting `json:"connection,omitempty"`
	// Changes are what the call has changed. They are undone if the answer is no.
	Changes *tool.Changing `json:"changes,omitempty"`
	Why     []tool.Reason  `json:"why"`
	Facts   Facts          `json:"facts"`
	// Links are the files that a file tool reaches by a link, where they lie. A remembered answer holds for these.
	Links     []string  `json:"links,omitempty"`
	Digest    string    `json:"digest"`
	Remember  []string  `json:"remember"`           // the scopes that a yes can be remembered for
	AskOnce   bool      `json:"ask_once,omitempty"` // either answer is remembered for the session
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Waiting   int       `json:"waiting"`          // calls that one answer serves now
	Daemon    string    `json:"daemon,omitempty"` // which asks, where several share the database

	DecidedAt  *time.Time      `json:"decided_at,omitempty"`
	DecidedBy  string          `json:"decided_by,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Remembered string          `json:"remembered,omitempty"`
	EditedArgs json.RawMessage `json:"edited_args,omitempty"`

	own bool // of the daemon itself: when it leaves, the question ends
}

// Facts are what the guard found out about the call.
type Facts struct {
	Class    tool.Class           `json:"class,omitempty"`
	Mode     tool.Mode            `json:"mode,omitempty"`
	Dir      string               `json:"dir,omitempty"`
	Home     string               `json:"home,omitempty"` // of the program that runs the call, if not the session's
	Profile  sandbox.Profile      `json:"profile,omitempty"`
	Commands []shellparse.Command `json:"commands,omitempty"`
	Opaque   []shellparse.Opaque  `json:"opaque,omitempty"`
	Reads    []string             `json:"reads,omitempty"`
	Writes   []string             `json:"writes,omitempty"`
	Hosts    []string             `json:"hosts,omitempty"`
	Origins  tool.Origins         `json:"origins,omitzero"`
	// Bound are the files that the call gets with exactly this content. NotBound says in
	// words what else it executes or reads, which others may change after the answer.
	Bound    []sandbox.Approved `json:"bound,omitempty"`
	NotBound []string           `json:"not_bound,omitempty"`
	// Elsewhere: another program runs the call, outside of this daemon's control.
	Elsewhere bool `json:"elsewhere,omitempty"`
	Outside   bool `json:"outside,omitempty"` // and the tool is that program's own
	Typed     bool `json:"typed,omitempty"`   // and it may type into what the call starts
	// Limits of the sandbox that hold after a yes as well.
	WritePaths  []string          `json:"allowed_write_paths,omitempty"`
	Domains     []string          `json:"allowed_domains,omitempty"`
	Unlisted    string            `json:"unlisted,omitempty"` // what happens with other hosts: ask or deny
	Obligations guard.Obligations `json:"obligations,omitzero"`
}

// ItemOf returns the question whether a call may run, as a person without a queue is asked.
func ItemOf(c *tool.Call) Item { return itemOf(c, TypeExecution) }

func itemOf(c *tool.Call, kind Type) Item {
	return Item{
		Type: kind, Status: StatusPending,
		Account: c.Session.Account, SessionID: c.Session.ID, SessionMade: c.Session.Created,
		Agent: c.Session.Agent, Parents: c.Session.Ancestors(), RunsAs: c.Request.RunsAs, CallID: c.ID,
		Tool: c.Spec.Name, Description: c.Spec.Description, Args: orEmptyObject(c.In.Args),
		Why: append([]tool.Reason{}, c.Decision.Reasons...), Facts: factsOf(c), Remember: []string{RememberOnce},
	}
}

// linksOf returns the physical paths of a file tool that are not those of its arguments. Of a shell command it returns
// none: where its words lead depends on what it did before them.
func linksOf(c *tool.Call) (links []string) {
	if c.Facts.Uses.Script != nil {
		return nil
	}
	for _, u := range c.Facts.Uses.Paths {
		if u.Raw == "" || u.Path == "" {
			continue
		}
		named := u.Raw
		switch {
		case named == "~" || strings.HasPrefix(named, "~/"):
			named = filepath.Join(c.In.Home, named[1:])
		case !filepath.IsAbs(named):
			named = filepath.Join(c.In.Dir, named)
		}
		if filepath.Clean(named) != u.Path && !slices.Contains(links, u.Path) {
			links = append(links, u.Path)
		}
	}
	slices.Sort(links)
	return links
}

func factsOf(c *tool.Call) Facts {
	f := Facts{
		Class: c.Facts.Class, Mode: c.Facts.Mode, Dir: c.In.Dir, Home: c.Request.Home, Profile: c.Session.Profile,
		Hosts: c.Facts.Uses.Hosts, Origins: c.Facts.Origins,
		WritePaths: c.Settings.AllowedWritePaths, Domains: c.Settings.Network.AllowedDomains,
		Unlisted:    c.Settings.Network.Unlisted,
		Obligations: c.Decision.Obligations, Bound: c.Binding.Files, NotBound: c.Binding.Not,
		Elsewhere: c.Request.Elsewhere(), Outside: c.Request.Outside,
		Typed: c.Request.Typed,
	}
	if s := c.Facts.Uses.Script; s != nil {
		f.Commands, f.Opaque = s.Commands, s.Opaque
	}
	for _, p := range c.Facts.Uses.Paths {
		name := p.Path
		if name == "" {
			name = p.Raw + " (unknown)"
		}
		if p.Op == guard.Write {
			f.Writes = append(f.Writes, name)
		} else {
			f.Reads = append(f.Reads, name)
		}
	}
	return f
}

func orEmptyObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

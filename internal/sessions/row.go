package sessions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// data holds the fields of a session that no query uses.
type data struct {
	Home     string          `json:"home,omitempty"`
	Mode     tool.Mode       `json:"mode,omitempty"`
	Profile  sandbox.Profile `json:"profile,omitempty"`
	Title    string          `json:"title,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Groups   map[string]bool `json:"groups,omitempty"`
	Tools    map[string]bool `json:"tools,omitempty"`
	Found    []string        `json:"found,omitempty"`
	Sandbox  *guard.Settings `json:"sandbox,omitempty"`
	Skills   []tool.Skill    `json:"skills,omitempty"`
	Only     []string        `json:"only,omitempty"`
	Without  []string        `json:"without,omitempty"`
	Daemon   string          `json:"daemon,omitempty"`
	Place    string          `json:"place,omitempty"`
	Type     string          `json:"agent_type,omitempty"`
	Tree     string          `json:"tree,omitempty"`
}

const columns = `id, account, dir, tag, created, updated, data, parent, agent, begun`

func encode(sess tool.Session) (string, error) {
	b, err := json.Marshal(data{
		Home: sess.Home, Mode: sess.Mode, Profile: sess.Profile, Title: sess.Title,
		Metadata: sess.Metadata, Groups: sess.Groups, Tools: sess.Tools, Found: sess.Found, Sandbox: sess.Sandbox,
		Skills: sess.Skills, Only: sess.Only, Without: sess.Without, Daemon: sess.Daemon, Place: sess.Place,
		Type: sess.Type, Tree: sess.Tree,
	})
	if err != nil {
		return "", fmt.Errorf("encode session %q: %w", sess.ID, err)
	}
	return string(b), nil
}

func scan(row interface{ Scan(...any) error }) (tool.Session, error) {
	var sess tool.Session
	var created, updated int64
	var rest string
	if err := row.Scan(&sess.ID, &sess.Account, &sess.Dir, &sess.Tag, &created, &updated, &rest,
		&sess.Parent, &sess.Agent, &sess.Begun); err != nil {
		return tool.Session{}, err
	}
	var d data
	if err := json.Unmarshal([]byte(rest), &d); err != nil {
		return tool.Session{}, fmt.Errorf("decode session %q: %w", sess.ID, err)
	}
	sess.Created, sess.Updated = time.Unix(0, created).UTC(), time.Unix(0, updated).UTC()
	sess.Home, sess.Mode, sess.Profile, sess.Title = d.Home, d.Mode, d.Profile, d.Title
	sess.Metadata, sess.Groups, sess.Tools, sess.Found, sess.Sandbox = d.Metadata, d.Groups, d.Tools, d.Found, d.Sandbox
	sess.Skills, sess.Only, sess.Without, sess.Type = d.Skills, d.Only, d.Without, d.Type
	sess.Daemon, sess.Place, sess.Tree = d.Daemon, d.Place, d.Tree
	sess.Begun = cmp.Or(sess.Begun, sess.Dir) // of rows of the first version over PostgreSQL
	return sess, nil
}

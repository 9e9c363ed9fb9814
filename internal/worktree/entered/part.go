// Package entered has the tools EnterWorktree and ExitWorktree: a session goes to work in a git
// worktree of its own, and comes back. It is a part of the daemon; package worktree does the work.
//
//	p, err := entered.Definition().Open(ctx, host)
//	p.Groups[0].Tools // the two; Output.Dir of a call is the directory that the session has from then on
//
// Both calls are judged as the git commands that they stand for. The store keeps which worktrees a
// session is in, so they are known after a restart of the daemon. ExitWorktree removes a worktree
// in which something was changed only if the call says so; files that git ignores do not count.
// Worktrees of a session that is deleted stay on the disk: nobody has looked at what is in them.
//
// After an error the session stays in its directory. If the store failed after the worktree was
// removed, that directory is gone, and ExitWorktree with the action keep leads out of it. The codes
// are worktree_not_found, worktree_changed, too_many_worktrees and no_directory, and those of package
// worktree. A session may leave its worktrees in any order.
//
// A git command of a tool that changes something is also passed to commands in its Uses (tools.go):
// otherwise it is not judged. A new fact of a worktree that was entered is a field of place.
package entered

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/worktree"
)

//go:embed migrations
var migrations embed.FS

// Definition returns the worktrees of sessions as a part of the daemon.
func Definition() part.Definition {
	return part.Definition{
		Name:     "worktrees",
		Schema:   store.Embedded("worktrees", migrations),
		Deferred: []string{"EnterWorktree", "ExitWorktree"},
		Open: func(_ context.Context, h part.Host) (part.Part, error) {
			return (&feature{host: h}).part(), nil
		},
		Describe: func(part.Config) part.Part { return (&feature{}).part() },
	}
}

type feature struct{ host part.Host }

func (f *feature) part() part.Part {
	return part.Part{
		Groups: []catalog.Group{{Name: "worktrees", Tools: []tool.Tool{enter{f}, exit{f}}}},
		Deleted: func(tx *sql.Tx, session string) error {
			_, err := tx.Exec(`DELETE FROM worktrees_entered WHERE session = $1`, session)
			return err
		},
	}
}

// kept is what is kept of a session.
type kept struct {
	Last int     `json:"last"` // number of the worktree that was entered last
	In   []place `json:"in"`
}

// place is a worktree that a session has entered.
type place struct {
	ID   string `json:"id"`
	Back string `json:"back"` // directory of the session before
	// BackTree is the session's Tree before; "" if there was none.
	BackTree string        `json:"back_tree,omitempty"`
	Tree     worktree.Tree `json:"tree"`
}

// maxIn is how many worktrees a session may be in.
const maxIn = 50

func (k kept) find(id string) (place, error) {
	i := slices.IndexFunc(k.In, func(p place) bool { return p.ID == id })
	if i >= 0 {
		return k.In[i], nil
	}
	var ids []string
	for _, p := range k.In {
		ids = append(ids, p.ID)
	}
	return place{}, &tool.Error{
		Code: "worktree_not_found", Msg: fmt.Sprintf("Worktree not found: %.100s", id),
		Hint: fmt.Sprintf("this session is in these worktrees: %v", ids),
	}
}

// leave takes p out. A worktree that was entered from p gets the way back of p.
func (k *kept) leave(p place) {
	k.In = slices.DeleteFunc(k.In, func(o place) bool { return o.ID == p.ID })
	for i := range k.In {
		if guard.Within(k.In[i].Back, p.Tree.Path) {
			k.In[i].Back = p.Back
		}
		if guard.Within(k.In[i].BackTree, p.Tree.Path) {
			k.In[i].BackTree = p.BackTree
		}
	}
}

func (f *feature) load(ctx context.Context, session string) (k kept, err error) {
	err = f.host.DB.Read(ctx, func(tx *sql.Tx) error {
		k, err = read(tx, session)
		return err
	})
	return k, err
}

func read(tx *sql.Tx, session string) (k kept, err error) {
	var data string
	err = tx.QueryRow(`SELECT data FROM worktrees_entered WHERE session = $1`, session).Scan(&data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return k, nil
	case err != nil:
		return k, err
	}
	return k, json.Unmarshal([]byte(data), &k)
}

// change changes what is kept of a session, in one step.
func (f *feature) change(ctx context.Context, session string, change func(*kept) error) error {
	return f.host.DB.Write(ctx, func(tx *sql.Tx) error {
		k, err := read(tx, session)
		if err != nil {
			return err
		}
		if err := change(&k); err != nil {
			return err
		}
		data, err := json.Marshal(k)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO worktrees_entered (session, data) VALUES ($1, $2)
			ON CONFLICT (session) DO UPDATE SET data = excluded.data`, session, string(data))
		return err
	})
}

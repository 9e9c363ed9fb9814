package undo

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// outcome implements [tool.Made] for a call that has ended.
type outcome struct {
	j    *journal
	call *tool.Call
	may  func(path string) bool
}

// Facts implements [tool.Made].
func (m outcome) Facts(ctx context.Context) ([]tool.Changed, error) {
	of, err := m.j.call(ctx, m.call.ID)
	if err != nil {
		return nil, err
	}
	git := newGitBefore(m.j, bareBox{m.call.Request.User}, of.Changes)
	defer git.close()
	came := map[string]bool{}
	for _, c := range of.Changes {
		if c.Before.Type == nothing && c.After.Type == isFile {
			came[c.After.Sum] = true
		}
	}
	all := make([]tool.Changed, 0, len(of.Changes))
	for _, c := range of.Changes {
		shown := c.shown(of.Dir)
		f := tool.Changed{
			Path: c.Path, Kind: shown.Kind, BytesBefore: shown.BytesBefore,
			BytesAfter: shown.BytesAfter, Protected: !m.may(c.Path),
		}
		f.Moved = f.Kind == tool.ChangeDelete && c.Before.Type == isFile && c.Before.Size > 0 && came[c.Before.Sum]
		f.Tracked, f.Uncommitted = git.facts(c)
		if f.Uncommitted {
			if f.Own, err = m.own(ctx, of, c); err != nil {
				return nil, err
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// own reports whether calls of the session made a file, and nobody else has changed it since. A file that an undo
// has put back may be anybody's.
func (m outcome) own(ctx context.Context, of call, c change) (bool, error) {
	if of.Session == "" {
		return false, nil
	}
	own, next := false, c.Before
	err := m.j.db.Read(ctx, func(tx *sql.Tx) error {
		own, next = false, c.Before
		ended := errors.New("the first call is found")
		err := each(tx, func(row scan) error {
			var x change
			var before, after []byte
			var session, undoes string
			if err := row(&session, &undoes, &before, &after); err != nil {
				return err
			}
			if err := x.decode(before, after); err != nil {
				return err
			}
			if session != of.Session || undoes != "" || !x.After.same(next) || x.After.Modified != next.Modified {
				return ended
			}
			if next = x.Before; next.Type == nothing {
				own = true
				return ended
			}
			return nil
		}, `SELECT d.session, d.undoes, c.before, c.after FROM undo_changes c JOIN undo_calls d ON d.call_id = c.call_id
			WHERE c.path = $1 AND d.n < (SELECT n FROM undo_calls WHERE call_id = $2) ORDER BY d.n DESC, c.n DESC`,
			[]byte(c.Path), of.ID)
		if errors.Is(err, ended) {
			err = nil
		}
		return err
	})
	return own, err
}

// Diff implements [tool.Made].
func (m outcome) Diff(ctx context.Context, most int) (string, error) {
	of, err := m.j.call(ctx, m.call.ID)
	if err != nil {
		return "", err
	}
	return m.j.diff(of, most)
}

// Undo implements [tool.Made]. The journal has it as a call of its own, which can be undone.
func (m outcome) Undo(ctx context.Context) (by string, left []tool.Change, err error) {
	of, err := m.j.call(ctx, m.call.ID)
	if err != nil {
		return "", nil, err
	}
	p, err := planOf(of, nil, false)
	if err != nil {
		return "", nil, err
	}
	c := *m.call
	c.ID, c.Spec = "call_"+rand.Text(), undo{}.Spec()
	r := &recorder{j: m.j, call: &c, config: m.j.settings(), at: m.j.now(), undoes: of.ID, plan: encode(p)}
	box := bareBox{c.Request.User} // an undo may give the call back what the call could change
	kept := sandbox.WithKeeper(context.WithValue(ctx, recorderKey{}, r), r)
	out, err := restorer{j: m.j, box: box, by: c.ID, of: of, refused: true}.restore(kept, p)
	r.mu.Lock()
	defer r.mu.Unlock()
	err = errors.Join(err, r.settle(ctx))
	why := map[string]string{}
	for _, x := range out.Conflicts {
		why[x.Path] = x.Why
	}
	for _, x := range of.Changes {
		shown := x.shown(of.Dir)
		if shown.Conflict = why[relative(of.Dir, x.Path)]; shown.Conflict != "" || err != nil {
			left = append(left, shown)
		}
	}
	if err != nil {
		err = fmt.Errorf("undo the changes: %w", err)
	}
	return c.ID, left, err
}

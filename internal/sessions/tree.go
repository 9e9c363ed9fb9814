package sessions

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// maxDepth is how many sessions may be above one.
const maxDepth = 16

// climb returns a session with those above it. read returns one by itself.
func climb(id string, read func(id string) (tool.Session, error)) (tool.Session, error) {
	sess, err := read(id)
	if err != nil || sess.Parent == "" {
		return sess, err
	}
	var above []tool.Session
	for at := sess.Parent; at != ""; {
		up, err := read(at)
		if err == nil && len(above) >= maxDepth {
			err = fmt.Errorf("session %q has no end of parents", id)
		}
		if err != nil {
			return tool.Session{}, err
		}
		above = append(above, up)
		at = up.Parent
	}
	return sess.Under(above), nil
}

// join finds what is above a new session, and whether its name is free in that tree.
func (s *Store) join(tx *sql.Tx, sess tool.Session) (tool.Session, error) {
	if sess.Parent == "" {
		sess.Above = nil
		return sess, nil
	}
	up, err := climb(sess.Parent, func(id string) (tool.Session, error) { return get(tx, sess.Account, id) })
	if err != nil {
		return sess, err
	}
	above := append([]tool.Session{up}, up.Above...)
	if len(above) > maxDepth {
		return sess, &tool.Error{
			Code: "validation_error",
			Msg:  fmt.Sprintf("session %q has %d above it, %d at most", sess.ID, len(above), maxDepth),
			Hint: "start the agent from a session further up",
		}
	}
	above[0].Above = nil
	sess = sess.Under(above)
	if ok, err := free(tx, sess.Root(), sess.Agent); err != nil || ok {
		return sess, err
	}
	return sess, &tool.Error{
		Code: "agent_exists", Msg: fmt.Sprintf("Agent with name '%s' is already registered", sess.Agent),
		Hint: "choose another name, or delete the session of that agent; sandboxd agents tree lists them",
	}
}

// free reports whether no agent of a tree has a name.
func free(tx *sql.Tx, root, name string) (bool, error) {
	var n int
	err := tx.QueryRow(`SELECT count(*) FROM sessions WHERE root = $1 AND agent = $2 AND deleted = 0`,
		root, name).Scan(&n)
	return n == 0, err
}

// nextName returns a name that no agent of a tree has: of another one with a number behind it.
func nextName(tx *sql.Tx, root, name string) (string, error) {
	name = name[:min(len(name), 56)]
	for i := 2; ; i++ {
		next := fmt.Sprintf("%s-%d", name, i)
		if ok, err := free(tx, root, next); err != nil || ok {
			return next, err
		}
	}
}

// below returns the ids of a session and of all below it, each after its parent.
func below(tx *sql.Tx, account, id string) ([]string, error) {
	if _, err := get(tx, account, id); err != nil {
		return nil, err
	}
	all := []string{id}
	for i := 0; i < len(all); i++ {
		children, err := column(tx, `SELECT id FROM sessions WHERE parent = $1 AND deleted = 0
			ORDER BY created, id`, all[i])
		if err != nil {
			return nil, err
		}
		all = append(all, children...)
	}
	return all, nil
}

func column(tx *sql.Tx, query string, args ...any) ([]string, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// All returns the sessions of an account with those above each, each after its parent.
func (s *Store) All(ctx context.Context, account string) ([]tool.Session, error) {
	var all []tool.Session
	err := s.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT `+columns+` FROM sessions WHERE account = $1 AND deleted = 0
			ORDER BY created, id`, account)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			sess, err := scan(rows)
			if err != nil {
				return err
			}
			all = append(all, sess)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	byID, children := map[string]tool.Session{}, map[string][]string{}
	for _, sess := range all {
		byID[sess.ID] = sess
		children[sess.Parent] = append(children[sess.Parent], sess.ID)
	}
	read := func(id string) (tool.Session, error) {
		if sess, ok := byID[id]; ok {
			return sess, nil
		}
		return tool.Session{}, notFound(id)
	}
	sorted := make([]tool.Session, 0, len(all))
	var walk func(id string) error
	walk = func(id string) error {
		for _, child := range children[id] {
			sess, err := climb(child, read)
			if err == nil {
				sorted = append(sorted, sess)
				err = walk(child)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return sorted, walk("")
}

package approvals

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Grant is an answer that is remembered: it answers later calls of the same tool
// with the same arguments in the same directory and with the same rights. It answers only where a person
// would be asked; it never lifts a denial. One for a session ends with that session,
// and another session of the same id does not get it. That of a connection has the tool
// "network connection" and the host as its argument, and holds in one workspace.
type Grant struct {
	ID         string          `json:"id"`
	Scope      string          `json:"scope"` // session or always
	Account    string          `json:"account,omitempty"`
	RunsAs     string          `json:"runs_as,omitempty"` // whose rights the calls have, if not the daemon's
	SessionID  string          `json:"session_id,omitempty"`
	Tool       string          `json:"tool_name"`
	Args       json.RawMessage `json:"args"` // canonical
	Dir        string          `json:"dir"`
	Approved   bool            `json:"approved"`
	Reason     string          `json:"reason,omitempty"`
	Author     string          `json:"author"`
	CreatedAt  time.Time       `json:"created_at"`
	ExpiresAt  time.Time       `json:"expires_at"`
	Hits       int             `json:"hits"`
	LastUsedAt *time.Time      `json:"last_used_at,omitempty"`
}

// argsKey returns the fixed-size name of arguments: the SHA-256 of their canonical text, so that neither the order
// of fields nor a collision matters.
func argsKey(args json.RawMessage) (key string, canonical []byte, err error) {
	canonical, err = strictjson.Canonical(args)
	if err != nil {
		return "", nil, fmt.Errorf("canonical arguments: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), canonical, nil
}

// keyOf returns the key of the arguments that a grant for the item has, "" if no grant may answer it.
func keyOf(ctx context.Context, item Item) (string, error) {
	if len(item.Remember) <= 1 {
		return "", nil
	}
	defer budget.Of(ctx).Compute(ctx)() // arguments may have megabytes
	_, args, _ := item.grantKey()
	key, _, err := argsKey(json.RawMessage(args))
	return linkedKey(key, item.Links), err
}

// linkedKey is the key of arguments that lead to these files by links. A name that becomes a link later, or leads
// elsewhere, has another key, so that no answer is remembered for a file that nobody saw.
func linkedKey(key string, links []string) string {
	if len(links) == 0 {
		return key
	}
	return digest(append([]string{"links", key}, links...)...)
}

// remembered looks for a grant that answers the item, whose arguments have this key. A refusal wins over an
// approval.
func (q *Queue) remembered(ctx context.Context, item Item, key string) (tool.Approval, bool, error) {
	name, _, dir := item.grantKey()
	now := q.db.Now()
	var a tool.Approval
	err := q.db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT id, approved, reason, author, scope FROM approval_grants
			WHERE tool_name = $1 AND args_key = $2 AND account = $3 AND dir = $4
			AND (scope = 'always' OR (scope = 'session' AND session_id = $5 AND session_made = $6)) AND expires_at > $7
			AND created_at <= $8 AND runs_as = $9
			ORDER BY approved, created_at LIMIT 1`,
			name, key, item.Account, dir, item.SessionID, item.SessionMade.UnixNano(), now.UnixMilli(),
			notAfter(now), item.RunsAs,
		).Scan(&a.ID, &a.Approved, &a.Reason, &a.By, &a.Remember)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return tool.Approval{}, false, nil
	}
	if err != nil {
		return tool.Approval{}, false, err
	}
	used := false
	err = q.db.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE approval_grants SET hits = hits + 1, last_used_at = $1 WHERE id = $2`,
			now.UnixMilli(), a.ID)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		used = n == 1 // 0: revoked in between
		return err
	})
	a.Asked, a.Answered = now, now
	return a, used, err
}

// grant keeps a person's answer where it is to be remembered.
func (q *Queue) grant(tx *sql.Tx, item Item, now time.Time) error {
	scope := item.Remembered
	if item.AskOnce && scope != RememberAlways {
		scope = RememberSession
	}
	decided := item.Status == StatusApproved || item.Status == StatusRefused
	if !decided || (scope != RememberSession && scope != RememberAlways) {
		return nil
	}
	name, args, dir := item.grantKey()
	session, made, life := item.SessionID, item.SessionMade.UnixNano(), q.opts.SessionGrant
	links := item.Links
	if item.EditedArgs != nil { // which may name other files: by a link they are asked about again
		args, links = string(item.EditedArgs), nil
	}
	if scope == RememberAlways {
		session, made, life = "", 0, q.opts.AlwaysGrant
	}
	approved := 0 // a number, because not every database takes a truth value here
	if item.Status == StatusApproved {
		approved = 1
	}
	key, canonical, err := argsKey(json.RawMessage(args))
	if err != nil {
		return err
	}
	key = linkedKey(key, links)
	_, err = tx.Exec(`DELETE FROM approval_grants WHERE tool_name = $1 AND args_key = $2 AND account = $3
		AND dir = $4 AND scope = $5 AND session_id = $6 AND runs_as = $7`,
		name, key, item.Account, dir, scope, session, item.RunsAs) // the newest answer counts
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO approval_grants (id, scope, account, session_id, session_made, tool_name, args_key,
		args, dir, approved, reason, author, created_at, expires_at, runs_as)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		"grt_"+rand.Text(), scope, item.Account, session, made, name, key, string(canonical), dir,
		approved, item.Reason, item.DecidedBy, now.UnixMilli(), now.Add(life).UnixMilli(), item.RunsAs)
	return err
}

// Grants lists what is remembered and still counts, oldest first.
func (q *Queue) Grants(ctx context.Context) ([]Grant, error) {
	all := []Grant{}
	err := q.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.Query(`SELECT id, scope, account, session_id, tool_name, args, dir, approved, reason, author,
			created_at, expires_at, hits, last_used_at, runs_as FROM approval_grants WHERE expires_at > $1
			ORDER BY created_at, id`, q.db.Now().UnixMilli())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			g, err := scanGrant(rows)
			if err != nil {
				return err
			}
			all = append(all, g)
		}
		return rows.Err()
	})
	return all, err
}

func scanGrant(rows *sql.Rows) (Grant, error) {
	var g Grant
	var args string
	var created, expires, used int64
	err := rows.Scan(&g.ID, &g.Scope, &g.Account, &g.SessionID, &g.Tool, &args, &g.Dir, &g.Approved, &g.Reason,
		&g.Author, &created, &expires, &g.Hits, &used, &g.RunsAs)
	g.Args, g.CreatedAt, g.ExpiresAt = json.RawMessage(args), fromMillis(created), fromMillis(expires)
	if used != 0 {
		at := fromMillis(used)
		g.LastUsedAt = &at
	}
	return g, err
}

// Revoke ends a grant: the next such call asks again. An unknown id is a
// [*tool.Error] with the code not_found.
func (q *Queue) Revoke(ctx context.Context, id, by string) error {
	e := Event{Kind: EventRevoked, Grant: id, By: by}
	err := q.db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT account, session_id, tool_name FROM approval_grants WHERE id = $1`, id).
			Scan(&e.Item.Account, &e.Item.SessionID, &e.Item.Tool)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return noGrant(id)
	}
	if err != nil {
		return err
	}
	if err := q.opts.Record(ctx, e); err != nil {
		return fmt.Errorf("record the revocation: %w", err)
	}
	err = q.db.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`DELETE FROM approval_grants WHERE id = $1`, id)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err == nil && n == 0 { // somebody else revoked it meanwhile
			return noGrant(id)
		}
		return err
	})
	if err == nil {
		q.feed.send(e)
	}
	return err
}

// forgetSession removes the grants for a session that is deleted.
func forgetSession(tx *sql.Tx, session string) error {
	_, err := tx.Exec(`DELETE FROM approval_grants WHERE scope = 'session' AND session_id = $1`, session)
	return err
}

func noGrant(id string) error {
	return &tool.Error{
		Code: "not_found", Stage: "approve", Msg: fmt.Sprintf("no grant %q", id), Hint: "list the grants",
	}
}

package approvals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// encoded returns a question as a row has it. Its arguments may have megabytes, so nobody encodes it while others
// wait for the database.
func encoded(i Item) (string, error) {
	text, err := json.Marshal(i)
	if err != nil {
		return "", fmt.Errorf("encode question: %w", err)
	}
	return string(text), nil
}

func insertItem(tx *sql.Tx, i Item, text string) error {
	_, err := tx.Exec(`INSERT INTO approval_questions
		(id, type, status, account, session_id, digest, created_at, expires_at, item, daemon)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		i.ID, i.Type, i.Status, i.Account, i.SessionID, i.Digest,
		i.CreatedAt.UnixMilli(), i.ExpiresAt.UnixMilli(), text, i.Daemon)
	return err
}

// updateAnswer stores how a question of this daemon ended. Callers that wait take their use of
// the answer at once; without any, it serves one later call. That of another daemon is not seen
// until that one has looked who waits.
func updateAnswer(tx *sql.Tx, id string, a answer, now time.Time, reuse time.Duration, callers int, seen bool) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	uses := 0
	if seen && callers == 0 && (a.Status == StatusApproved || a.Status == StatusRefused) {
		uses = 1
	}
	res, err := tx.Exec(`UPDATE approval_questions
		SET status = $1, decided_at = $2, usable_until = $3, uses = $4, answer = $5, seen = $6
		WHERE id = $7 AND status = 'pending'`,
		a.Status, now.UnixMilli(), now.Add(reuse).UnixMilli(), uses, string(text), seen, id)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("question %q is not pending in the database (%d rows): %w", id, n, errors.Join(err, errState))
	}
	return nil
}

// errState: over a file memory and database differ; over a database that others share one of them
// was faster.
var errState = errors.New("the question was answered elsewhere")

// giveBack lets the answer of a caller that left at the same moment serve a
// later call.
func giveBack(tx *sql.Tx, id string) error {
	_, err := tx.Exec(`UPDATE approval_questions SET uses = uses + 1
		WHERE id = $1 AND status IN ('approved', 'refused')`, id)
	return err
}

// lateAnswer takes one use of an answer that nobody waited for.
func (q *Queue) lateAnswer(ctx context.Context, key digestKey, now time.Time) (tool.Approval, bool, error) {
	var approval tool.Approval
	var found bool
	err := q.db.Read(ctx, func(tx *sql.Tx) (err error) {
		approval, found, err = findLate(tx, key, now)
		return err
	})
	if err != nil || !found {
		return tool.Approval{}, false, err
	}
	err = q.db.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE approval_questions SET uses = uses - 1 WHERE id = $1 AND uses > 0`, approval.ID)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		found = n == 1 // 0: another daemon took it in between
		return err
	})
	return approval, err == nil && found, err
}

// notAfter returns the latest time of an answer that counts. One of the future was given before the clock was set
// back: its time would be over later than whoever gave it meant. Clocks that are set all the time are set by less.
func notAfter(now time.Time) int64 { return now.Add(time.Minute).UnixMilli() }

func findLate(tx *sql.Tx, key digestKey, now time.Time) (tool.Approval, bool, error) {
	var id, text string
	var decided int64
	err := tx.QueryRow(`SELECT id, decided_at, answer FROM approval_questions
		WHERE digest = $1 AND type = $2 AND uses > 0 AND usable_until > $3 AND decided_at <= $4
		ORDER BY decided_at DESC, id LIMIT 1`, key.digest, key.kind, now.UnixMilli(), notAfter(now)).
		Scan(&id, &decided, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return tool.Approval{}, false, nil
	}
	if err != nil {
		return tool.Approval{}, false, err
	}
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return tool.Approval{}, false, fmt.Errorf("decode the answer of %q: %w", id, err)
	}
	return a.approval(id, fromMillis(decided)), true, nil
}

func prune(tx *sql.Tx, now time.Time) error {
	_, err := tx.Exec(`DELETE FROM approval_questions
		WHERE status <> 'pending' AND decided_at < $1 AND usable_until < $2`,
		now.Add(-decidedKept).UnixMilli(), now.UnixMilli())
	if err != nil {
		return err
	}
	_, err = tx.Exec(`DELETE FROM approval_grants WHERE expires_at <= $1`, now.UnixMilli())
	return err
}

func loadPending(tx *sql.Tx, daemon string) ([]*waiting, error) {
	rows, err := tx.Query(`SELECT id, type, session_id, digest, expires_at FROM approval_questions
		WHERE status = 'pending' AND daemon = $1`, daemon)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []*waiting
	for rows.Next() {
		var w waiting
		var expires int64
		if err := rows.Scan(&w.id, &w.key.kind, &w.session, &w.key.digest, &expires); err != nil {
			return nil, err
		}
		w.expires = fromMillis(expires)
		all = append(all, &w)
	}
	return all, rows.Err()
}

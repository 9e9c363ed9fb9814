package cron

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Job is a command that a session runs by the clock.
type Job struct {
	ID       string    `json:"id"`
	Session  string    `json:"session_id"`
	Name     string    `json:"name"`
	Schedule string    `json:"schedule"`
	Command  string    `json:"command"`
	Created  time.Time `json:"created_at"`
	Next     time.Time `json:"next_at"`
	Last     *Run      `json:"last,omitempty"`
	Missed   *Missed   `json:"missed,omitempty"`

	number         int64
	account        string
	authors        provenance.Authors
	sessionCreated time.Time // another session may get its id
	maker          Maker
}

// Run is the newest run of a job: what became of it, or that it is running.
type Run struct {
	At     time.Time `json:"at"`
	Status string    `json:"status"` // of the call; or running, refused or lost
	Call   string    `json:"call_id,omitempty"`
	Code   string    `json:"code,omitempty"`   // of the error of the call
	Reason string    `json:"reason,omitempty"` // why there was no call
}

// What a run is beside the statuses of calls.
const (
	running = "running"
	refused = "refused" // no call was made
	lost    = "lost"    // the daemon went away
)

// Missed counts the runs that did not happen at their time.
type Missed struct {
	Count  int       `json:"count"`
	Last   time.Time `json:"last_at"` // when that was said
	Reason string    `json:"reason"`
}

// kept are the fields of a job that have no column of their own. They are stored as one JSON text.
type kept struct {
	Name           string    `json:"name"`
	Schedule       string    `json:"schedule"`
	Command        string    `json:"command"`
	Last           *Run      `json:"last,omitempty"`
	Missed         *Missed   `json:"missed,omitempty"`
	SessionCreated time.Time `json:"session_created"`
	Maker          Maker     `json:"maker"`
}

func (j Job) data() (string, error) {
	b, err := json.Marshal(kept{j.Name, j.Schedule, j.Command, j.Last, j.Missed, j.sessionCreated, j.maker})
	return string(b), err
}

const columns = `session, number, account, created, next, authors, data`

func scan(row interface{ Scan(...any) error }) (Job, error) {
	var j Job
	var created, next, authors int64
	var data string
	if err := row.Scan(&j.Session, &j.number, &j.account, &created, &next, &authors, &data); err != nil {
		return j, err
	}
	var k kept
	if err := json.Unmarshal([]byte(data), &k); err != nil {
		return j, fmt.Errorf("decode cron job %d of session %s: %w", j.number, j.Session, err)
	}
	j.ID, j.Name, j.Schedule, j.Command = idOf(j.number), k.Name, k.Schedule, k.Command
	j.Last, j.Missed, j.sessionCreated, j.maker = k.Last, k.Missed, k.SessionCreated, k.Maker
	j.Created, j.Next = time.UnixMilli(created).UTC(), time.UnixMilli(next).UTC()
	j.authors = provenance.Authors(authors)
	return j, nil
}

func idOf(number int64) string { return "cron_" + strconv.FormatInt(number, 10) }

// numberOf returns the number in an id; 0, which no job has, for what is no id.
func numberOf(id string) int64 {
	digits, ok := strings.CutPrefix(id, "cron_")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || idOf(n) != id {
		return 0
	}
	return n
}

func notFound(id string) error {
	return &tool.Error{
		Code: "cron_not_found", Msg: fmt.Sprintf("Cron job not found: %.100s", id),
		Hint: "CronList lists the cron jobs of this session",
	}
}

// table is the cron jobs of a daemon. It is safe for concurrent use.
type table struct{ db *store.DB }

// create stores a new job and gives it an id. It refuses more jobs than a session or an account may have.
func (t table) create(ctx context.Context, j Job, max Config) (Job, error) {
	err := t.db.Write(ctx, func(tx *sql.Tx) error {
		for _, q := range []struct {
			of, where, key string
			max            int
		}{
			{"session", "session", j.Session, max.PerSession}, {"account", "account", j.account, max.PerAccount},
		} {
			var have int
			err := tx.QueryRow(`SELECT count(*) FROM cron_jobs WHERE `+q.where+` = $1`, q.key).Scan(&have)
			if err != nil {
				return err
			}
			if have >= q.max {
				return &tool.Error{
					Code: "too_many_cron_jobs",
					Msg:  fmt.Sprintf("this %s has %d cron jobs, %d at most", q.of, have, q.max),
					Hint: "CronList lists them and CronDelete deletes one",
				}
			}
		}
		err := tx.QueryRow(`INSERT INTO cron_counters (session, last) VALUES ($1, 1)
			ON CONFLICT (session) DO UPDATE SET last = cron_counters.last + 1 RETURNING last`,
			j.Session).Scan(&j.number)
		if err != nil {
			return err
		}
		j.ID = idOf(j.number)
		data, err := j.data()
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO cron_jobs (`+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			j.Session, j.number, j.account, j.Created.UnixMilli(), j.Next.UnixMilli(), int64(j.authors), data)
		return err
	})
	return j, err
}

// find returns the jobs for which a condition holds, the oldest of each session first.
func (t table) find(ctx context.Context, where string, args ...any) (all []Job, err error) {
	all = []Job{}
	err = t.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.Query(`SELECT `+columns+` FROM cron_jobs WHERE `+where+` ORDER BY session, number`, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			j, err := scan(rows)
			if err != nil {
				return err
			}
			all = append(all, j)
		}
		return rows.Err()
	})
	return all, err
}

// ofSession returns the jobs of a session.
func (t table) ofSession(ctx context.Context, session string) ([]Job, error) {
	return t.find(ctx, `session = $1`, session)
}

// ofAccount returns those of all its sessions; of every account where it is "".
func (t table) ofAccount(ctx context.Context, account string) ([]Job, error) {
	return t.find(ctx, `($1 = '' OR account = $1)`, account)
}

// due returns the jobs whose time has come.
func (t table) due(ctx context.Context, now time.Time) ([]Job, error) {
	return t.find(ctx, `next <= $1`, now.UnixMilli())
}

// next returns when the first job is due; zero without one.
func (t table) next(ctx context.Context) (at time.Time, err error) {
	var ms sql.NullInt64
	err = t.db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT min(next) FROM cron_jobs`).Scan(&ms)
	})
	if ms.Valid {
		at = time.UnixMilli(ms.Int64)
	}
	return at, err
}

// change changes a stored job. found is false if the job has been deleted.
func (t table) change(ctx context.Context, j Job, f func(*Job)) (found bool, err error) {
	err = t.db.Write(ctx, func(tx *sql.Tx) error {
		now, err := scan(tx.QueryRow(`SELECT `+columns+` FROM cron_jobs WHERE session = $1 AND number = $2`,
			j.Session, j.number))
		if errors.Is(err, sql.ErrNoRows) || err == nil && !now.sessionCreated.Equal(j.sessionCreated) {
			found = false
			return nil
		}
		if err != nil {
			return err
		}
		f(&now)
		data, err := now.data()
		if err != nil {
			return err
		}
		found = true
		_, err = tx.Exec(`UPDATE cron_jobs SET next = $1, data = $2 WHERE session = $3 AND number = $4`,
			now.Next.UnixMilli(), data, j.Session, j.number)
		return err
	})
	return found, err
}

// remove deletes a job and returns it.
func (t table) remove(ctx context.Context, session, id string) (j Job, err error) {
	err = t.db.Write(ctx, func(tx *sql.Tx) error {
		j, err = scan(tx.QueryRow(`DELETE FROM cron_jobs WHERE session = $1 AND number = $2 RETURNING `+columns,
			session, numberOf(id)))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = notFound(id)
	}
	return j, err
}

// drop deletes the jobs of a session.
func drop(tx *sql.Tx, session string) error {
	for _, table := range []string{"cron_counters", "cron_jobs"} {
		if _, err := tx.Exec(`DELETE FROM `+table+` WHERE session = $1`, session); err != nil {
			return err
		}
	}
	return nil
}

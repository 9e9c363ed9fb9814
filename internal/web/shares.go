package web

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandboxd/sandboxd/internal/store"
)

const (
	shareHours   = 24                  // that a link works unless its maker says otherwise
	maxHours     = 30 * 24             // that it may work
	maxShares    = 1000                // that work at once
	maxLooks     = 1000                // browsers that one link lets look
	maxStreams   = 32                  // that are open at once on one link
	keepsShares  = 30 * 24 * time.Hour // how long it is known who looked, after the end of a link
	lookEvery    = time.Minute         // looks of one browser that are closer count as one
	maxBrowser   = 200                 // bytes of a User-Agent that are kept
	clockSlack   = 5 * time.Minute     // how far a clock may be set back before what was made later counts as ended
	passwordRate = 12 * time.Second    // between two tries of a password, after the first few
	passwordTry  = 5                   // tries at once
)

// Share is a link by which others look at one session.
type Share struct {
	ID       string    `json:"id"`
	Session  string    `json:"session_id"`
	For      string    `json:"for,omitempty"` // whom it is for, in the words of its maker
	By       string    `json:"made_by"`
	Password bool      `json:"password"` // is asked for
	Made     time.Time `json:"created_at"`
	Ends     time.Time `json:"ends_at"`
	Ended    time.Time `json:"ended_at,omitzero"` // it was revoked, or is over
	Open     int       `json:"open"`              // pages that follow the session now
	Looks    []Look    `json:"looks"`

	maker    person
	password string
}

// Look is a browser that looked.
type Look struct {
	Address string    `json:"address"`
	Browser string    `json:"browser"`
	First   time.Time `json:"first_at"`
	Last    time.Time `json:"last_at"`
}

// shares are the links of a daemon.
type shares struct {
	db *store.DB
	mu sync.Mutex
	on map[string]*watched // by id; guarded by mu
}

// watched is what the daemon knows of a link while it runs.
type watched struct {
	session string
	streams map[*stream]bool
	passed  map[string]bool // digests of the cookies of browsers that gave the password
	tries   *rate.Limiter
}

type stream struct{ end context.CancelFunc }

// of is what is known of a link; mu is held.
func (s *shares) of(x Share) *watched {
	w := s.on[x.ID]
	if w == nil {
		if s.on == nil {
			s.on = map[string]*watched{}
		}
		w = &watched{
			session: x.Session, streams: map[*stream]bool{}, passed: map[string]bool{},
			tries: rate.NewLimiter(rate.Every(passwordRate), passwordTry),
		}
		s.on[x.ID] = w
	}
	return w
}

// errFull says that there are as many links as there may be.
var errFull = errors.New("too many links")

// make keeps a link and returns its token. Links that ended long ago are forgotten.
func (s *shares) make(ctx context.Context, x *Share) (token string, err error) {
	token, x.ID = newToken(), "shr_"+rand.Text()
	groups, err := json.Marshal(x.maker.Groups)
	if err != nil {
		return "", err
	}
	now := time.Now()
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		old := now.Add(-keepsShares).UnixMilli()
		for _, forget := range []string{
			`DELETE FROM web_looks WHERE share IN
				(SELECT id FROM web_shares WHERE ended <> 0 AND ended < $1 OR ends < $1)`,
			`DELETE FROM web_shares WHERE ended <> 0 AND ended < $1 OR ends < $1`,
		} {
			if _, err := tx.Exec(forget, old); err != nil {
				return err
			}
		}
		var n int
		err := tx.QueryRow(`SELECT count(*) FROM web_shares WHERE ended = 0 AND ends > $1`, now.UnixMilli()).Scan(&n)
		if err != nil {
			return err
		}
		if n >= maxShares {
			return errFull
		}
		_, err = tx.Exec(`INSERT INTO web_shares
			(id, token, session, viewer, password, maker, uid, gid, members, made, ends, ended)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0)`,
			x.ID, digest(token), x.Session, x.For, x.password, x.By, x.maker.UID, x.maker.GID, string(groups),
			x.Made.UnixMilli(), x.Ends.UnixMilli())
		return err
	})
	return token, err
}

const shareColumns = `id, session, viewer, password, maker, uid, gid, members, made, ends, ended`

func scanShare(row interface{ Scan(...any) error }) (x Share, err error) {
	var groups []byte
	var made, ends, ended int64
	err = row.Scan(&x.ID, &x.Session, &x.For, &x.password, &x.By, &x.maker.UID, &x.maker.GID, &groups,
		&made, &ends, &ended)
	if err == nil {
		err = json.Unmarshal(groups, &x.maker.Groups)
	}
	x.Password, x.Looks = x.password != "", []Look{}
	x.Made, x.Ends = time.UnixMilli(made).UTC(), time.UnixMilli(ends).UTC()
	if ended != 0 {
		x.Ended = time.UnixMilli(ended).UTC()
	}
	return x, err
}

// find is the link of a token, if it works now. One that is over is noted as ended, so that it does not
// work again when the clock is set back.
func (s *shares) find(ctx context.Context, token string) (x Share, ok bool, err error) {
	err = s.db.Read(ctx, func(tx *sql.Tx) error {
		x, err = scanShare(tx.QueryRow(`SELECT `+shareColumns+` FROM web_shares WHERE token = $1`, digest(token)))
		return err
	})
	now := time.Now()
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Share{}, false, nil
	case err != nil || !x.Ended.IsZero():
		return Share{}, false, err
	case now.Before(x.Ends) && now.After(x.Made.Add(-clockSlack)):
		return x, true, nil
	case now.Before(x.Ends): // the clock is wrong now, and may be right later
		return Share{}, false, nil
	}
	_, err = s.end(ctx, x.ID)
	return Share{}, false, err
}

// end ends a link and what is open on it. It reports false if there is no such link.
func (s *shares) end(ctx context.Context, id string) (found bool, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		done, err := tx.Exec(`UPDATE web_shares SET ended = CASE ended WHEN 0 THEN $1 ELSE ended END WHERE id = $2`,
			time.Now().UnixMilli(), id)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		found = n == 1
		return err
	})
	if err == nil {
		s.close(func(one string, _ *watched) bool { return one == id })
	}
	return found, err
}

// close ends what is open on links that have ended.
func (s *shares) close(ended func(id string, w *watched) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.on {
		if !ended(id, w) {
			continue
		}
		for one := range w.streams {
			one.end()
		}
		delete(s.on, id)
	}
}

// open notes a stream, which end ends. Whoever calls looks only afterwards whether the link works, so
// that no end is missed between the two.
func (s *shares) open(x Share, end context.CancelFunc) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, one := s.of(x), &stream{end}
	if len(w.streams) >= maxStreams {
		return nil, false
	}
	w.streams[one] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(w.streams, one)
	}, true
}

// list is a page of the links, the newest first, and how many there are.
func (s *shares) list(ctx context.Context, limit, offset int) (all []Share, total int, err error) {
	all = []Share{}
	err = s.db.Read(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRow(`SELECT count(*) FROM web_shares`).Scan(&total); err != nil {
			return err
		}
		rows, err := tx.Query(`SELECT `+shareColumns+` FROM web_shares ORDER BY made DESC, id LIMIT $1 OFFSET $2`,
			limit, offset)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			x, err := scanShare(rows)
			if err != nil {
				return err
			}
			all = append(all, x)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for i := range all {
			if all[i].Looks, err = looks(tx, all[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		if x := &all[i]; x.Ended.IsZero() && !now.Before(x.Ends) {
			x.Ended = x.Ends
		}
		if w := s.on[all[i].ID]; w != nil {
			all[i].Open = len(w.streams)
		}
	}
	return all, total, err
}

func looks(tx *sql.Tx, share string) ([]Look, error) {
	rows, err := tx.Query(`SELECT address, browser, first, last FROM web_looks WHERE share = $1
		ORDER BY last DESC, address, browser`, share)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []Look{}
	for rows.Next() {
		var l Look
		var first, last int64
		if err := rows.Scan(&l.Address, &l.Browser, &first, &last); err != nil {
			return nil, err
		}
		l.First, l.Last = time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC()
		all = append(all, l)
	}
	return all, rows.Err()
}

// errManyLooks says that no more browsers may look.
var errManyLooks = fmt.Errorf("%d browsers have opened this link", maxLooks)

// looked notes that a browser looks; tell hears of it first when it is a new one.
func (s *shares) looked(ctx context.Context, id, address, browser string, tell func() error) error {
	now := time.Now()
	var last sql.NullInt64
	var n int
	err := s.db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT count(*), max(CASE WHEN address = $1 AND browser = $2 THEN last END)
			FROM web_looks WHERE share = $3`, address, browser, id).Scan(&n, &last)
	})
	switch {
	case err != nil:
		return err
	case last.Valid && now.Sub(time.UnixMilli(last.Int64)).Abs() < lookEvery:
		return nil
	case !last.Valid && n >= maxLooks:
		return errManyLooks
	case !last.Valid:
		if err := tell(); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO web_looks (share, address, browser, first, last) VALUES ($1, $2, $3, $4, $4)
			ON CONFLICT (share, address, browser) DO UPDATE SET last = excluded.last`,
			id, address, browser, now.UnixMilli())
		return err
	})
}

// deleted forgets the links of a session that is deleted, and who looked at it.
func deleted(tx *sql.Tx, session string) error {
	_, err := tx.Exec(`DELETE FROM web_looks WHERE share IN (SELECT id FROM web_shares WHERE session = $1)`, session)
	if err == nil {
		_, err = tx.Exec(`DELETE FROM web_shares WHERE session = $1`, session)
	}
	return err
}

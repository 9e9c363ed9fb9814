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
	shareHours   = 24                  // default lifetime of a link
	maxHours     = 30 * 24             // longest lifetime of a link
	maxShares    = 1000                // links that work at the same time
	maxLooks     = 1000                // browsers per link
	maxStreams   = 32                  // open streams per link
	keepsShares  = 30 * 24 * time.Hour // how long the viewers of an ended link are kept
	lookEvery    = time.Minute         // looks of one browser within this time count once
	maxBrowser   = 200                 // bytes kept of a User-Agent
	clockSlack   = 5 * time.Minute     // what began further in the future counts as ended
	passwordRate = 12 * time.Second    // between two tries of a password, after the first few
	passwordTry  = 5                   // tries without a pause
)

// Share is a link by which others view one session.
type Share struct {
	ID       string    `json:"id"`
	Session  string    `json:"session_id"`
	For      string    `json:"for,omitempty"` // the person who gets the link, as its maker named them
	By       string    `json:"made_by"`
	Password bool      `json:"password"` // viewers must enter a password
	Made     time.Time `json:"created_at"`
	Ends     time.Time `json:"ends_at"`
	Ended    time.Time `json:"ended_at,omitzero"` // when it was revoked or expired
	Open     int       `json:"open"`              // open pages that follow the session
	Looks    []Look    `json:"looks"`

	maker    person
	password string
}

// Look is a browser that used a link.
type Look struct {
	Address string    `json:"address"`
	Browser string    `json:"browser"`
	First   time.Time `json:"first_at"`
	Last    time.Time `json:"last_at"`
}

// shares holds the links of a daemon.
type shares struct {
	db *store.DB
	mu sync.Mutex
	on map[string]*watched // by id; guarded by mu
}

// watched is the state of a link in memory.
type watched struct {
	session string
	streams map[*stream]bool
	passed  map[string]bool // digests of the cookies of browsers that entered the password
	tries   *rate.Limiter
}

type stream struct{ end context.CancelFunc }

// of returns the state of a link. The caller holds mu.
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

// errFull is the error for too many links.
var errFull = errors.New("too many links")

// make stores a link and returns its token. It deletes links that ended long ago.
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

// find returns the link of a token if it still works. It marks an expired link as ended, so that it does not work
// again when the clock is set back.
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
	case now.Before(x.Ends): // the clock may be wrong now and right later
		return Share{}, false, nil
	}
	_, err = s.end(ctx, x.ID)
	return Share{}, false, err
}

// end ends a link and its open streams. It returns false if there is no such link.
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

// close ends the open streams of links that have ended.
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

// open registers a stream, so that end can close it. The caller must check after this whether the link works;
// otherwise an end between the two would be missed.
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

// list returns a page of the links, the newest first, and their total number.
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

// errManyLooks is the error for too many browsers.
var errManyLooks = fmt.Errorf("%d browsers have opened this link", maxLooks)

// looked records that a browser uses a link. If the browser is a new one, it calls tell first.
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

// deleted deletes the links of a deleted session, with their looks.
func deleted(tx *sql.Tx, session string) error {
	_, err := tx.Exec(`DELETE FROM web_looks WHERE share IN (SELECT id FROM web_shares WHERE session = $1)`, session)
	if err == nil {
		_, err = tx.Exec(`DELETE FROM web_shares WHERE session = $1`, session)
	}
	return err
}

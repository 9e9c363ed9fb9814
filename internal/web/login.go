package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
)

const (
	linkTime = time.Minute // a link must be used within this time
	maxLinks = 64          // unused links
	maxName  = 64          // bytes of a person's name
)

// person is a person who is logged in.
type person struct {
	Name string // "" where none was given
	// The ids of the operator who made the link. The person has the same rights.
	UID, GID int
	Groups   []int
	CSRF     string
	Ends     time.Time
}

// logins holds the logins, in the database, and the links that are not used yet, in memory.
type logins struct {
	db    *store.DB
	mu    sync.Mutex
	links map[string]person // by digest of their token; guarded by mu
}

type linkRequest struct {
	As string `json:"as,omitempty"` // name of the person, which the record gets
}

// Link is a link for one login.
type Link struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires_at"`
}

func (s *site) makeLink(r *http.Request) (any, error) {
	var in linkRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	if err := s.on(); err != nil {
		return nil, err
	}
	if len(in.As) > maxName {
		return nil, route.BadRequest(fmt.Sprintf("as: a name has at most %d bytes", maxName))
	}
	me := route.CallerOf(r)
	token, ends, err := s.logins.link(person{Name: in.As, UID: me.UID, GID: me.GID, Groups: me.Groups})
	if err != nil {
		return nil, err
	}
	err = s.host.Record(r.Context(), tool.Note{
		Name: "web_link", Message: "a link to the page was made by " + me.Operator(),
		Detail: map[string]string{"as": in.As},
	})
	if err != nil {
		return nil, err
	}
	return route.Created{Data: Link{URL: s.origin() + "/login?token=" + token, Expires: ends}}, nil
}

// link returns a token that logs a person in once.
func (l *logins) link(who person) (token string, ends time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for digest, waits := range l.links {
		if now.After(waits.Ends) {
			delete(l.links, digest)
		}
	}
	if len(l.links) >= maxLinks {
		return "", ends, &tool.Error{
			Code: "too_many_requests", Msg: fmt.Sprintf("%d links wait for a login", maxLinks),
			Hint: "they end within a minute",
		}
	}
	if l.links == nil {
		l.links = map[string]person{}
	}
	token, who.Ends = newToken(), now.Add(linkTime).UTC()
	l.links[digest(token)] = who
	return token, who.Ends, nil
}

// login exchanges the token of a link for that of a cookie. It returns false if the link was used, is too old or
// never existed.
func (l *logins) login(ctx context.Context, token string, lasts time.Duration) (cookie string, ok bool, err error) {
	l.mu.Lock()
	who, ok := l.links[digest(token)]
	delete(l.links, digest(token))
	l.mu.Unlock()
	now := time.Now()
	if !ok || now.After(who.Ends) {
		return "", false, nil
	}
	cookie = newToken()
	groups, err := json.Marshal(who.Groups)
	if err != nil {
		return "", false, err
	}
	err = l.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec(`DELETE FROM web_logins WHERE ends < $1`, now.UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO web_logins (token, csrf, person, uid, gid, members, ends)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			digest(cookie), newToken(), who.Name, who.UID, who.GID, string(groups), now.Add(lasts).UnixMilli())
		return err
	})
	return cookie, err == nil, err
}

// who returns the person that a cookie belongs to. If a login would end later than it can, the clock was set back
// after it began. Nobody knows when it should end, so it is ended.
func (l *logins) who(ctx context.Context, cookie string, lasts time.Duration) (p person, ok bool, err error) {
	var ends int64
	var groups []byte
	err = l.db.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`SELECT csrf, person, uid, gid, members, ends FROM web_logins WHERE token = $1`,
			digest(cookie)).Scan(&p.CSRF, &p.Name, &p.UID, &p.GID, &groups, &ends)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return person{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(groups, &p.Groups)
	}
	p.Ends = time.UnixMilli(ends)
	left := time.Until(p.Ends)
	if err == nil && left <= 0 {
		err = l.logout(ctx, cookie) // so that it stays ended when the clock is set back
	}
	return p, err == nil && left > 0 && left < lasts+clockSlack, err
}

// logout ends a login.
func (l *logins) logout(ctx context.Context, cookie string) error {
	return l.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM web_logins WHERE token = $1`, digest(cookie))
		return err
	})
}

// newToken returns a token with 260 random bits.
func newToken() string { return rand.Text() + rand.Text() }

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

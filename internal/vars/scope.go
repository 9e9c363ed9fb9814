package vars

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// told is the outside text that the sessions of one scope have received. A scope is an account in a workspace; a
// session that is older than scopes has one of its own. A harness can pass text from one of its sessions to another, so
// text that one session received counts as known to all of them.
type told struct {
	times   int64              // how often one was told something
	at      int64              // when last, in nanoseconds
	authors provenance.Authors // by whom, without a pause
	hosts   provenance.Hosts   // of those of authors that are the web
	outside int64              // last id of the texts
	size    int                // bytes of them
}

// toldBytes estimates the memory that it takes.
func toldBytes(t told) int { return 200 + len(t.hosts) }

// pause is how long a scope must have received nothing from outside before a new session in it begins without outside
// authors. The daemon still recognises outside text that the session repeats.
const pause = 24 * time.Hour

const selectScope = `SELECT told, told_at, authors, hosts, outside, outside_size FROM var_scopes WHERE scope = $1`

// scopeName returns the name of a session's scope. The slash makes it no session's.
func (s *System) scopeName(sess tool.Session) string {
	root := sess.Dir
	if s.o.Root != nil {
		root = s.o.Root(sess.Dir)
	}
	if sess.Account == "" || root == "" {
		return ""
	}
	return sess.Account + " in " + root
}

func (s *System) scopeOf(h head, row func(query string, args ...any) scanner) (told, error) {
	return s.scopes.Get(h.in, func() (told, error) { return loadScope(row(selectScope, h.in)) })
}

func loadScope(row scanner) (told, error) {
	var t told
	err := row.Scan(&t.times, &t.at, &t.authors, &t.hosts, &t.outside, &t.size)
	if errors.Is(err, sql.ErrNoRows) {
		return told{}, nil
	}
	return t, err
}

func (s *System) storeScope(h head) error {
	s.scopes.Set(h.in, h.scope)
	return s.exec(`INSERT INTO var_scopes (scope, told, told_at, authors, outside, outside_size, hosts)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (scope) DO UPDATE SET told = $2, told_at = $3, authors = $4, outside = $5, outside_size = $6,
			hosts = $7`,
		h.in, h.scope.times, h.scope.at, h.scope.authors, h.scope.outside, h.scope.size, h.scope.hosts)
}

// heard returns the authors of all text that the model has seen in this session, or may know from another session of
// its scope.
func (h head) heard() provenance.Authors {
	if h.scope.times > h.since {
		return h.released | h.scope.authors
	}
	return h.released
}

// hostsHeard returns the hosts from which the web text among that came.
func (h head) hostsHeard() provenance.Hosts {
	if h.scope.times > h.since {
		return h.hosts.And(h.scope.hosts.List()...)
	}
	return h.hosts
}

// hostsOf returns the hosts from which a text of these authors may come: the known ones, and those whose text its
// author had seen.
func (h head) hostsOf(by provenance.Authors, known []string) provenance.Hosts {
	if by&provenance.ByWeb == 0 {
		return ""
	}
	return provenance.Hosts("").And(known...).And(h.hostsHeard().List()...)
}

// shown notes the authors of a text that the model is about to see, and the hosts from which it came.
func (s *System) shown(h *head, by provenance.Authors, hosts []string) {
	h.released |= by
	if by&provenance.ByWeb == 0 {
		hosts = nil
	}
	h.hosts = h.hosts.And(hosts...)
	by &= provenance.Untrusted
	if by == 0 {
		return
	}
	now := s.now()
	if now-h.scope.at > int64(pause) {
		h.scope.authors, h.scope.hosts = 0, ""
	}
	h.scope.times++
	h.scope.at = max(now, h.scope.at) // a clock that was set back makes no pause
	h.scope.authors |= by
	h.scope.hosts = h.scope.hosts.And(hosts...)
}

// Released returns the authors of all text that the model of a session has seen.
func (s *System) Released(ctx context.Context, session string) (tool.Origins, error) {
	var shown tool.Origins
	err := s.read(ctx, session, func(_ *sql.Tx, h head) error {
		shown = tool.Origins{Session: h.heard().List(), Hosts: h.hostsHeard().List()}
		return nil
	})
	return shown, err
}

// ResetOrigins forgets the authors of the text that the model of a session has seen, and what its scope has received
// until now. Policies then ask no more because of that text, so only a person may decide it.
func (s *System) ResetOrigins(ctx context.Context, session string) error {
	return s.write(ctx, session, func(_ *sql.Tx, h *head) error {
		h.released, h.hosts, h.since = 0, "", h.scope.times
		return nil
	})
}

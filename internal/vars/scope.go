package vars

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/internal/provenance"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// told is what the sessions of one scope were told from outside: of an account in a
// workspace, or of one session from before there were scopes. What one of them was told,
// its harness can tell the others, so all of them know it.
type told struct {
	times   int64              // how often one was told something
	at      int64              // when last, in nanoseconds
	authors provenance.Authors // by whom, without a pause
	hosts   provenance.Hosts   // of those of authors that are the web
	outside int64              // last id of the texts
	size    int                // bytes of them
}

// toldBytes is what that takes in memory, about.
func toldBytes(t told) int { return 200 + len(t.hosts) }

// pause is after how long without a word from outside a new session begins as if none had
// been told anything. Text that it repeats is known all the same.
const pause = 24 * time.Hour

const selectScope = `SELECT told, told_at, authors, hosts, outside, outside_size FROM var_scopes WHERE scope = $1`

// scopeName is the name of a session's scope. The slash makes it no session's.
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

// heard is whose text the model of the session has seen, or may have been told of by
// another session of its scope.
func (h head) heard() provenance.Authors {
	if h.scope.times > h.since {
		return h.released | h.scope.authors
	}
	return h.released
}

// hostsHeard is where the text of the web came from, of what heard says.
func (h head) hostsHeard() provenance.Hosts {
	if h.scope.times > h.since {
		return h.hosts.And(h.scope.hosts.List()...)
	}
	return h.hosts
}

// hostsOf is where a text of these authors may come from: from hosts that are known of it,
// and from those that its author had been shown.
func (h head) hostsOf(by provenance.Authors, known []string) provenance.Hosts {
	if by&provenance.ByWeb == 0 {
		return ""
	}
	return provenance.Hosts("").And(known...).And(h.hostsHeard().List()...)
}

// shown notes whose text the model of the session is shown, and the hosts that it came from.
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

// Released says whose text the model of a session was shown.
func (s *System) Released(ctx context.Context, session string) (tool.Origins, error) {
	var shown tool.Origins
	err := s.read(ctx, session, func(_ *sql.Tx, h head) error {
		shown = tool.Origins{Session: h.heard().List(), Hosts: h.hostsHeard().List()}
		return nil
	})
	return shown, err
}

// ResetOrigins forgets whose text the model of a session was shown, and what its scope was
// told until now. Only a person may decide that: it lifts the questions that follow from it.
func (s *System) ResetOrigins(ctx context.Context, session string) error {
	return s.write(ctx, session, func(_ *sql.Tx, h *head) error {
		h.released, h.hosts, h.since = 0, "", h.scope.times
		return nil
	})
}

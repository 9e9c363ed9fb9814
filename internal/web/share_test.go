package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/internal/part"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func newDB(t *testing.T) *store.DB {
	t.Helper()
	db, err := storetest.At(t.Context(), t, filepath.Join(t.TempDir(), "state.db"), Definition().Schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// oneSession is the session s of account a.
type oneSession struct{ part.Sessions }

func (oneSession) Session(_ context.Context, account, id string) (tool.Session, error) {
	return tool.Session{ID: id, Account: account}, nil
}

// What routes refuse has the status of docs/http.md.
func TestStatusesOfLinks(t *testing.T) {
	off := Definition().Config().(*Config)
	p, err := Definition().Open(t.Context(), part.Host{
		DB: newDB(t), Config: off, Sessions: oneSession{}, Log: slog.New(slog.DiscardHandler),
		Record: func(context.Context, tool.Note) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"POST /web/links":         "409 web_off",
		"POST /sessions/s/shares": "409 web_off",
		"DELETE /shares/none":     "404 share_not_found",
	} {
		mux, got := http.NewServeMux(), ""
		for _, rt := range p.Routes {
			mux.HandleFunc(rt.Pattern, func(_ http.ResponseWriter, r *http.Request) {
				_, err := rt.Handle(r)
				if e, ok := errors.AsType[route.Error](err); ok {
					got = fmt.Sprint(e.Status, " ", e.Said.Code)
				}
			})
		}
		method, path, _ := strings.Cut(line, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}"))
		caller := route.Caller{Account: "a", Role: tool.RoleOperator}
		mux.ServeHTTP(httptest.NewRecorder(), r.WithContext(route.WithCaller(r.Context(), caller)))
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// shift makes all times of the database as if the clock had been wrong by so much when they were written.
func shift(t *testing.T, db *store.DB, by time.Duration) {
	t.Helper()
	err := db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE web_shares SET made = made + $1, ends = ends + $1`, by.Milliseconds())
		if err == nil {
			_, err = tx.Exec(`UPDATE web_logins SET ends = ends + $1`, by.Milliseconds())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A link works between the times it was made and ends, and a clock that is set back gives none of them
// more.
func TestW03_AnEndIsAnEndAlsoByAWrongClock(t *testing.T) {
	for _, tt := range []struct {
		name   string
		shifts []time.Duration
		want   bool
	}{
		{"now", []time.Duration{0}, true},
		{"nearly at its end", []time.Duration{-59 * time.Minute}, true},
		{"after its end", []time.Duration{-61 * time.Minute}, false},
		{"after its end, and then the clock is set back", []time.Duration{-61 * time.Minute, time.Hour}, false},
		{"the clock was set back by less than it may differ", []time.Duration{4 * time.Minute}, true},
		{"the clock was set back", []time.Duration{10 * time.Minute}, false},
		{"the clock was set back, and is right again", []time.Duration{10 * time.Minute, -10 * time.Minute}, true},
	} {
		db := newDB(t)
		s := shares{db: db}
		x := Share{Session: "s", Made: time.Now(), Ends: time.Now().Add(time.Hour)}
		token, err := s.make(t.Context(), &x)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for _, by := range tt.shifts {
			shift(t, db, by)
			if _, got, err = s.find(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
		if got != tt.want {
			t.Errorf("%s: the link works: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// The same holds for a login: its cookie ends in time, and no clock gives it back.
func TestW04_ALoginEndsAlsoByAWrongClock(t *testing.T) {
	for _, tt := range []struct {
		name   string
		shifts []time.Duration
		want   bool
	}{
		{"now", []time.Duration{0}, true},
		{"after its end", []time.Duration{-61 * time.Minute}, false},
		{"after its end, and then the clock is set back", []time.Duration{-61 * time.Minute, time.Hour}, false},
		{"the clock was set back", []time.Duration{10 * time.Minute}, false},
	} {
		l := logins{db: newDB(t)}
		token, _, err := l.link(person{Name: "Ada"})
		if err != nil {
			t.Fatal(err)
		}
		cookie, ok, err := l.login(t.Context(), token, time.Hour)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		got := false
		for _, by := range tt.shifts {
			shift(t, l.db, by)
			if _, got, err = l.who(t.Context(), cookie, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if got != tt.want {
			t.Errorf("%s: logged in: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// A link for a login that nobody used in its minute is over.
func TestW04_ALinkForALoginEndsAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logins
		token, ends, err := l.link(person{})
		if err != nil || time.Until(ends) > time.Minute {
			t.Fatal(ends, err)
		}
		time.Sleep(time.Minute + time.Second)
		if _, ok, err := l.login(t.Context(), token, time.Hour); ok || err != nil {
			t.Errorf("it logs in: %t, %v", ok, err)
		}
	})
}

// A stream that begins while its link is revoked ends: either it is told, or it finds the end.
func TestW03_NoStreamOutlivesARevocation(t *testing.T) {
	s := shares{db: newDB(t)}
	x := Share{Session: "s", Made: time.Now(), Ends: time.Now().Add(time.Hour)}
	token, err := s.make(t.Context(), &x)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leave, ok := s.open(x, cancel)
	if !ok {
		t.Fatal("it did not open")
	}
	defer leave()
	if _, err := s.end(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == nil {
		t.Error("what was open goes on")
	}
	if _, ok, err := s.find(t.Context(), token); ok || err != nil {
		t.Errorf("the link is found: %t, %v", ok, err)
	}
	if found, err := s.end(t.Context(), "shr_x"); found || err != nil {
		t.Errorf("a link that there is not: %t, %v", found, err)
	}
}

// One link has so many open pages and lets so many browsers look; the record hears of each browser first.
func TestW03_OneLinkTakesNoMoreThanItsPart(t *testing.T) {
	s := shares{db: newDB(t)}
	x := Share{Session: "s", Made: time.Now(), Ends: time.Now().Add(time.Hour)}
	if _, err := s.make(t.Context(), &x); err != nil {
		t.Fatal(err)
	}
	for n := range 33 {
		if _, ok := s.open(x, func() {}); ok != (n < 32) {
			t.Errorf("stream %d is open: %t", n, ok)
		}
	}
	told := 0
	tell := func() error { told++; return nil }
	for range 3 {
		if err := s.looked(t.Context(), x.ID, "127.0.0.1", "one", tell); err != nil {
			t.Fatal(err)
		}
	}
	failing := func() error { return errManyLooks }
	if err := s.looked(t.Context(), x.ID, "127.0.0.1", "two", failing); err == nil {
		t.Error("it is shown although it was not recorded")
	}
	all, total, err := s.list(t.Context(), 10, 0)
	if err != nil || total != 1 || len(all[0].Looks) != 1 || told != 1 {
		t.Errorf("%d told; %d links: %+v, %v", told, total, all, err)
	}
	err = s.db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
			INSERT INTO web_looks SELECT $1, 'a', i, 0, 0 FROM n`, x.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.looked(t.Context(), x.ID, "127.0.0.1", "another", tell); err != errManyLooks || told != 1 {
		t.Errorf("one more than may look: %v, %d told", err, told)
	}
}

// Only the password of a link opens it; what is kept does not tell it.
func TestW03_PasswordsAreKeptAsKeys(t *testing.T) {
	kept := hashPassword("correct horse")
	if strings.Contains(kept, "horse") || kept == hashPassword("correct horse") {
		t.Errorf("kept: %s", kept)
	}
	for password, want := range map[string]bool{
		"correct horse": true, "correct horse ": false, "": false, "Correct horse": false,
		strings.Repeat("x", maxPassword+1): false,
	} {
		if got := isPassword(kept, password); got != want {
			t.Errorf("%.20q: %t", password, got)
		}
	}
	if isPassword("", "") || isPassword("$", "") {
		t.Error("an empty key takes an empty password")
	}
}

// Only the opening of a link may come from another site.
func TestW07_WhatMayComeFromElsewhere(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		want         bool
	}{
		{"GET", "/login", true},
		{"GET", "/shared/x", true},
		{"POST", "/shared/x", false},
		{"GET", "/shared/x/events", false},
		{"GET", "/shared/x/calls/y", false},
		{"GET", "/sharedx", false},
		{"GET", "/", false},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := linked(r); got != tt.want {
			t.Errorf("%s %s: %t", tt.method, tt.path, got)
		}
	}
}

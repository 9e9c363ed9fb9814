package vars_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/store/storetest"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

// A large value comes in pieces, each of whole characters; all of them are the value.
func TestALargeValueComesInPieces(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for name, text := range map[string]string{
		"empty": "", "small": "x\x00y", "ascii": strings.Repeat("0123456789", 300_000),
		"characters": "x" + strings.Repeat("é世\x00😀", 400_000), "one piece": strings.Repeat("x", 1<<20),
		"one more": strings.Repeat("x", 1<<20+1), "cut in a character": strings.Repeat("x", 1<<20-2) + "😀",
	} {
		f.put("v", text)
		_, value, ok, err := f.Read(t.Context(), f.session, "v")
		if err != nil || !ok {
			t.Fatalf("%s: %v %v", name, ok, err)
		}
		got, pieces := "", 0
		for piece, err := range value.Pieces(t.Context()) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !utf8.ValidString(piece) || len(piece) > 1<<20+utf8.UTFMax {
				t.Errorf("%s: a piece of %d bytes is cut within a character, or too large", name, len(piece))
			}
			got += piece
			pieces++
		}
		if got != text || len(text) <= 1<<20 && pieces != 1 {
			t.Errorf("%s: got %d bytes in %d pieces, want %d", name, len(got), pieces, len(text))
		}
	}
}

// A value that changes while it is read is never put together from two.
func TestAValueThatChangesWhileItIsRead(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"replaced": func(f *fixture) { f.put("v", strings.Repeat("b", 3<<20)) },
		"removed": func(f *fixture) {
			if _, _, err := f.Remove(f.t.Context(), f.session, []string{"v"}); err != nil {
				f.t.Fatal(err)
			}
		},
	} {
		f := newFixture(t, vars.Options{})
		f.put("v", strings.Repeat("a", 3<<20))
		_, value, _, err := f.Read(t.Context(), f.session, "v")
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range value.Pieces(t.Context()) {
			if last = err; err == nil {
				change(f)
			}
		}
		if !errors.Is(last, vars.ErrChanged) {
			t.Errorf("%s: got %v", name, last)
		}
		f.put("v", strings.Repeat("a", 3<<20))
		_, value, _, _ = f.Read(t.Context(), f.session, "v")
		for _, err := range value.Pieces(t.Context()) { // being read changes nothing
			if err != nil {
				t.Errorf("%s: read twice: %v", name, err)
			}
			f.get("v")
		}
	}
}

// Values that a call reads are taken from the budget of its request first.
func TestValuesAreTakenFromTheBudget(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("v", strings.Repeat("a", 3<<20))
	b := budget.New(budget.Limits{Bytes: 4 << 20})
	hold, err := b.Request("a")
	if err != nil {
		t.Fatal(err)
	}
	ctx := budget.With(t.Context(), hold)
	_, _, err = f.Resolve(ctx, f.session, []byte(`{"x":"$VAR_REF{{v:0:1}}"}`))
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "too_large" || !strings.Contains(e.Msg, "variable v") {
		t.Errorf("a reference: %v", err)
	}
	read := f.Injected()[0]
	_, err = read.Run(ctx, tool.In{Session: f.session, Args: []byte(`{"name":"v"}`)}, nil)
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "too_large" {
		t.Errorf("ReadVar: %v", err)
	}
	if v, _ := f.get("v"); v.ReferenceCount != 1 {
		t.Errorf("what was refused counts as %d visits", v.ReferenceCount-1)
	}
}

// Descriptions and tags are bounded; what an older daemon stored can be changed all the same.
func TestDescriptionsAndTagsAreBounded(t *testing.T) {
	f := newFixture(t, vars.Options{})
	text := func(n int) *string { s := strings.Repeat("x", n); return &s }
	many := make([]string, 65)
	for i := range many {
		many[i] = "t"
	}
	for name, c := range map[string]vars.Change{
		"a long description": {Value: text(1), Desc: text(4097)},
		"a long tag":         {Value: text(1), Tags: &[]string{*text(257)}},
		"many tags":          {Value: text(1), Tags: &many},
		"an empty tag":       {Value: text(1), Tags: &[]string{"a", ""}},
		"a tag of two lines": {Value: text(1), Tags: &[]string{"a\nb"}}, // it would be stored as two tags
		"a tag of no text":   {Value: text(1), Tags: &[]string{"\xff"}},
	} {
		_, _, err := f.Put(t.Context(), f.session, "v", c, tool.OriginPerson)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "validation_error" || len(e.Msg) > 300 {
			t.Errorf("%s: %v", name, err)
		}
	}
	most := append(many[:63:63], *text(256))
	fits := vars.Change{Value: text(1), Desc: text(4096), Tags: &most}
	if _, _, err := f.Put(t.Context(), f.session, "v", fits, tool.OriginPerson); err != nil {
		t.Error(err)
	}
	err := f.db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE vars SET descr = $1, tags = $2`, *text(10_000), "\n"+*text(300)+"\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Update(t.Context(), f.session, "v", vars.Change{Value: text(2)}, tool.OriginPerson); err != nil {
		t.Errorf("a variable of before: %v", err)
	}
}

// Large values are read in the turn of the account at a processor, so that readers leave one to others.
func TestLargeValuesAreReadInTurn(t *testing.T) {
	storetest.FileOnly(t) // a server does not live by the clock of the test
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, vars.Options{Now: time.Now})
		f.put("v", strings.Repeat("a", 3<<20))
		b := budget.New(budget.Limits{Bytes: 256 << 20, Processors: 1})
		hold, err := b.Request("a")
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Release()
		ctx := budget.With(t.Context(), hold)
		_, value, _, err := f.Read(ctx, f.session, "v")
		if err != nil {
			t.Fatal(err)
		}
		for name, read := range map[string]func() error{
			"a piece": func() (err error) {
				for _, err = range value.Pieces(ctx) {
					break
				}
				return err
			},
			"ReadVar": func() error {
				_, err := f.Injected()[0].Run(ctx, tool.In{Session: f.session, Args: []byte(`{"name":"v"}`)}, nil)
				return err
			},
			"a reference": func() error {
				_, _, err := f.Resolve(ctx, f.session, []byte(`{"x":"$VAR_REF{{v:0:1}}"}`))
				return err
			},
		} {
			end := hold.Compute(ctx)
			done := make(chan error, 1)
			go func() { done <- read() }()
			synctest.Wait()
			if len(done) > 0 {
				t.Errorf("%s did not wait for the turn", name)
			}
			end()
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// What ReadVar gives has the author that it names, also while others write the variable.
func TestReadVarNamesTheAuthorOfWhatItGives(t *testing.T) {
	f := newFixture(t, vars.Options{Now: time.Now})
	texts := map[tool.Origin]string{
		tool.OriginPerson: strings.Repeat("p", 300<<10), tool.OriginTool: strings.Repeat("t", 300<<10),
	}
	f.put("v", texts[tool.OriginPerson])
	done := make(chan error)
	go func() {
		for range 25 {
			for by, text := range texts {
				if _, _, err := f.Put(t.Context(), f.session, "v", vars.Change{Value: &text}, by); err != nil {
					done <- err
					return
				}
			}
		}
		done <- nil
	}()
	for {
		out := f.mustCall("ReadVar", `{"name":"v"}`)
		if texts[out.Origin] != out.Text {
			t.Errorf("%.10q… is said to be of %s", out.Text, out.Origin)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

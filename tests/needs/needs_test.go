package needs

import (
	"fmt"
	"strings"
	"testing"
)

// spy is a test that is told to end.
type spy struct {
	testing.TB
	ended string
}

func (s *spy) Helper() {}

func (s *spy) Fatalf(format string, args ...any) { s.end("failed: ", format, args) }

func (s *spy) Skipf(format string, args ...any) { s.end("skipped: ", format, args) }

func (s *spy) end(how, format string, args []any) {
	s.ended = how + fmt.Sprintf(format, args...)
	panic(s)
}

func (s *spy) watch(f func(testing.TB)) string {
	defer func() {
		if p := recover(); p != nil && p != any(s) {
			panic(p)
		}
	}()
	f(s)
	return s.ended
}

func TestWhatMayBeSkipped(t *testing.T) {
	for _, tt := range []struct {
		name         string
		call         func(testing.TB)
		skips, fails string // the beginning of how it ends, as usual and where nothing may be skipped
	}{
		{
			"what is missing", func(t testing.TB) { Missing(t, "no %s", "x") }, "skipped: no x",
			"failed: with SANDBOXD_REQUIRE",
		},
		{
			"a program that is missing", func(t testing.TB) { Program(t, "no-such-program") },
			"skipped: no-such-program is", "failed: with SANDBOXD_REQUIRE",
		},
		{"a program that is there", func(t testing.TB) { Program(t, "sh") }, "", ""},
		{"what another run shows", func(t testing.TB) { Elsewhere(t, "as %s", "y") }, "skipped: as y", "skipped: as y"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for value, want := range map[string]string{"": tt.skips, "1": tt.fails} {
				t.Setenv(require, value)
				s := &spy{TB: t}
				_ = s.watch(tt.call)
				if !strings.HasPrefix(s.ended, want) || (want == "") != (s.ended == "") {
					t.Errorf("with %s=%q it ended %q, want %q", require, value, s.ended, want)
				}
			}
		})
	}
}

package cron

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // for the change of the clock, on every host

	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestT51_LinesAndWhenTheyCome(t *testing.T) {
	from := time.Date(2026, 11, 22, 23, 14, 30, 0, time.UTC) // a Sunday
	for _, tt := range []struct{ line, next string }{
		{"* * * * *", "2026-11-22 23:15"},
		{"  */15   *  * * * ", "2026-11-22 23:15"},
		{"0 9 * * mon-fri", "2026-11-23 09:00"},
		{"0 9 * * MON", "2026-11-23 09:00"},
		{"30 2 1 jan *", "2027-01-01 02:30"},
		{"1,31 0-2 * * *", "2026-11-23 00:01"},
		{"0 0 13 * 5", "2026-11-27 00:00"}, // where both days are bounded, either does
		{"0 0 29 2 *", "2028-02-29 00:00"},
		{"@hourly", "2026-11-23 00:00"},
		{"@daily", "2026-11-23 00:00"},
		{"@weekly", "2026-11-29 00:00"},
		{"@monthly", "2026-12-01 00:00"},
		{" @yearly ", "2027-01-01 00:00"},
	} {
		l, err := ParseLine(tt.line)
		if err != nil {
			t.Errorf("%q: %v", tt.line, err)
			continue
		}
		if got := l.After(from).Format("2006-01-02 15:04"); got != tt.next {
			t.Errorf("%q comes at %s, want %s", tt.line, got, tt.next)
		}
	}
}

// What is refused says which field is wrong, and what to write.
func TestT51_WrongLines(t *testing.T) {
	for _, tt := range []struct{ line, says, hint string }{
		{"", "0 fields", "minute, hour"},
		{"* * * *", "4 fields", "minute, hour"},
		{"* * * * * *", "6 fields", "no seconds"},
		{"*/1 * * * * *", "6 fields", "once a minute at most"},
		{"@every 1s", "unknown shorthand", "@hourly"},
		{"@every 1h", "unknown shorthand", "@hourly"},
		{"@reboot", "unknown shorthand", "@hourly"},
		{"@Daily", "unknown shorthand", "@daily"},
		{"TZ=UTC * * * * *", "6 fields", "minute"},
		{"TZ=0 * * * *", "minute", "0 to 59"},
		{"CRON_TZ=Mars * * * *", "minute", "0 to 59"},
		{"60 * * * *", "minute: end of range (60)", "0 to 59"},
		{"* 24 * * *", "hour", "0 to 23"},
		{"* * 0 * *", "day of month", "1 to 31"},
		{"* * * 13 *", "month", "1 to 12"},
		{"* * * * 7", "day of week", "0 (Sunday) to 6"},
		{"* * * foo *", `month: "foo" is not understood`, "jan to dec"},
		{"mon * * * *", "minute", "0 to 59"},
		{"5-1 * * * *", "minute", ""},
		{"*/0 * * * *", "minute", ""},
		{"*-5 * * * *", "minute", "list"}, // the library takes it for *
		{", * * * *", "minute", ""},       // and this for never
		{"1,,2 * * * *", "minute", ""},
		{"1, * * * *", "minute", ""},
		{"-1 * * * *", "minute", ""},
		{"+1 * * * *", "minute", ""},
		{"? * * * *", "minute", ""},
		{"1/2/3 * * * *", "minute", ""},
		{"* * 30 2 *", "never comes", "month"},
		{"* * 31 4,6,9,11 *", "never comes", ""},
		{"99999999999999999999 * * * *", "minute", ""},
		{"* * * * *\x00", "day of week", ""},
		{"\x00 * * * *", "minute", ""},
		{"١ * * * *", "minute", ""},
		{strings.Repeat("*", 300), "bytes", ""},
		{strings.Repeat("1,", 99) + " * * * *", "bytes", ""},
	} {
		_, err := ParseLine(tt.line)
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != "invalid_schedule" || !strings.Contains(e.Msg, tt.says) || !strings.Contains(e.Hint, tt.hint) {
			t.Errorf("%q: got %v, hint %q; want %q, hint %q", tt.line, err, hintOf(err), tt.says, tt.hint)
		}
	}
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Hint
	}
	return ""
}

// What the documents say of the days on which the clock is changed.
func TestT51_TheClockIsChanged(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, line string
		from, to   time.Time
		want       int
	}{
		{
			"an hour that is left out", "30 2 * * *", time.Date(2026, 3, 29, 0, 0, 0, 0, zone),
			time.Date(2026, 3, 29, 23, 0, 0, 0, zone), 0,
		},
		{
			"an hour that comes twice", "30 2 * * *", time.Date(2026, 10, 25, 0, 0, 0, 0, zone),
			time.Date(2026, 10, 25, 23, 0, 0, 0, zone), 2,
		},
		{
			"every hour", "0 * * * *", time.Date(2026, 10, 24, 23, 59, 0, 0, zone),
			time.Date(2026, 10, 25, 23, 59, 0, 0, zone), 25,
		},
	} {
		l, err := ParseLine(tt.line)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.between(l.After(tt.from), tt.to); got != tt.want {
			t.Errorf("%s: %d times, want %d", tt.name, got, tt.want)
		}
	}
}

// No line comes more often than once a minute, or is read as another one than it is.
func FuzzT51_ALine(f *testing.F) {
	for _, s := range []string{"* * * * *", "@hourly", "*/5 1-3,7 * jan sun", "@every 1s", "TZ=0", "CRON_TZ=", ", * * * *", "*-5 * * * *"} {
		f.Add(s)
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLine(s)
		if err != nil {
			return
		}
		first := l.After(from)
		if first.IsZero() || first.Second() != 0 {
			t.Fatalf("%q comes at %v", s, first)
		}
		if next := l.After(first); !next.IsZero() && next.Sub(first) < time.Minute {
			t.Fatalf("%q comes at %v and at %v", s, first, next)
		}
	})
}

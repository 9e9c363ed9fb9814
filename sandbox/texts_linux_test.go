package sandbox

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// What a person reads of an end or a refusal, in the words of the documents.
func TestWordsOfEndsAndRefusals(t *testing.T) {
	for _, tt := range []struct{ name, got, want string }{
		{"a time that is over", Exit{TimedOut: true, Limit: "output", Signal: "SIGKILL"}.Why(), "timed_out"},
		{"a limit", Exit{Limit: "output", Signal: "SIGKILL"}.Why(), "output"},
		{"a signal", Exit{Signal: "SIGKILL"}.Why(), "signaled"},
		{"an exit", Exit{Code: 3}.Why(), "exited"},
		{
			"a file that was replaced", (&ReplacedError{Path: "/ws/tool"}).Error(),
			"/ws/tool was replaced after it was approved; the call was ended, and the other file did not run",
		},
		{"rights", (&RightsError{Why: "no root", Hint: "run it as root"}).Error(), "no root; run it as root"},
		{"rights of the daemon", Daemon().Rights(), ""},
		{"rights of nobody", User{}.Rights(), "nobody"},
		{"rights of a user", NewUser(7, 8, []int{9}, "u", "/home/u").Rights(), "uid 7, gid 8, groups 9"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A file that is too large to be copied is no file that can be approved.
func TestSealIsBounded(t *testing.T) {
	f, sum, err := seal(io.LimitReader(zeros{}, MaxBound+1))
	if !errors.Is(err, errTooLarge) || f != nil || sum != "" {
		t.Errorf("got %v, %q, %v", f, sum, err)
	}
	if f != nil {
		f.Close()
	}
}

// WithMode changes the entries that chmod would: owner, mask (or group) and others.
func TestWithMode(t *testing.T) {
	const owner, user, group, mask, other = 1, 2, 4, 16, 32
	list := func(entries ...uint16) []byte { // a tag and its rights, again and again
		out := binary.LittleEndian.AppendUint32(nil, 2)
		for i := 0; i < len(entries); i += 2 {
			out = binary.LittleEndian.AppendUint16(out, entries[i])
			out = binary.LittleEndian.AppendUint16(out, entries[i+1])
			out = binary.LittleEndian.AppendUint32(out, 12345)
		}
		return out
	}
	for _, tt := range []struct {
		name, attribute string
		in, want        []byte
	}{
		{
			"a list with a mask", aclAccess, list(owner, 7, user, 6, group, 5, mask, 7, other, 4),
			list(owner, 6, user, 6, group, 5, mask, 4, other, 1),
		},
		{"a list without", aclAccess, list(owner, 7, group, 5, other, 4), list(owner, 6, group, 4, other, 1)},
		{"what new files get", aclDefault, list(owner, 7, group, 5, other, 4), list(owner, 7, group, 5, other, 4)},
		{"no list", aclAccess, []byte("abc"), []byte("abc")},
		{"another form", aclAccess, []byte("abcdef"), []byte("abcdef")},
	} {
		in := string(tt.in)
		if got := WithMode(tt.attribute, tt.in, 0o641); string(got) != string(tt.want) || string(tt.in) != in {
			t.Errorf("%s: %x, want %x", tt.name, got, tt.want)
		}
	}
}

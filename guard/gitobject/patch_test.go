package gitobject

import (
	"bytes"
	"testing"
)

// A pack is a file of the workspace: an agent can write any delta into it.
func TestADeltaThatIsWrongIsRefused(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 0x1001) // 65,552 bytes
	for _, tt := range []struct {
		name        string
		base, delta string
		want        string
		left        int64
	}{
		{"bytes of the base and new ones", "hello", "\x05\x07\x91\x01\x04\x03abc", "elloabc", 7},
		{"the length 0 is 65,536", string(long), "\x90\x80\x04\x80\x80\x04\x80", string(long[:0x10000]), 1 << 20},
		{"no length of the base", "hello", "", "", 100},
		{"of another base", "hello", "\x04\x01\x01a", "", 100},
		{"no size", "hello", "\x05", "", 100},
		{"more than may be read", "hello", "\x05\x02\x02ab", "", 1},
		{"the operation 0", "hello", "\x05\x01\x00\x01a", "", 100},
		{"new bytes that are not there", "hello", "\x05\x05\x05ab", "", 100},
		{"a place that is not there", "hello", "\x05\x05\x91\x00", "", 100},
		{"bytes behind the base", "hello", "\x05\x05\x91\x01\x05", "", 100},
		{"more than it says", "hello", "\x05\x01\x02ab", "", 100},
		{"less than it says", "hello", "\x05\x03\x02ab", "", 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := (&Repo{left: tt.left}).patch([]byte(tt.base), []byte(tt.delta))
			if string(got) != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %d bytes, %v, want %d", len(got), err, len(tt.want))
			}
		})
	}
}

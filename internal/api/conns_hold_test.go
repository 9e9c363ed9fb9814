package api

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestWhatAConnectionHolds: each byte comes in its order, small ones wait for a large one, and nothing
// waits behind release.
func TestWhatAConnectionHolds(t *testing.T) {
	sent := &writes{}
	c := &conn{Conn: sent, patience: time.Minute}
	rnd := tier.Rand(t)
	var want []byte
	write := func(n int) {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rnd.Uint32())
		}
		want = append(want, p...)
		if done, err := c.Write(p); err != nil || done != n {
			t.Fatalf("wrote %d of %d: %v", done, n, err)
		}
	}
	for _, sizes := range [][]int{{2, 4096, 57000}, {4096, 2}, {1, 2, 3}, {70_000}, {4096, 200_000, 1}, {4096, takeBytes - 4096}} {
		c.hold()
		for i, n := range sizes {
			before := len(sent.all)
			write(n)
			if waits := len(sent.all) == before; i == 0 && waits != (n <= heldBytes) {
				t.Errorf("%v: that the first write waits is %v", sizes, waits)
			}
		}
		if err := c.release(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sent.all, want) {
			t.Fatalf("%v: %d of %d bytes came", sizes, len(sent.all), len(want))
		}
	}
	write(5)
	if !bytes.Equal(sent.all, want) {
		t.Error("a write waits although nothing holds it")
	}
	var none *conn
	none.hold()
	if err := none.release(); err != nil {
		t.Error(err)
	}
}

// writes is a connection that keeps what is written.
type writes struct {
	net.Conn
	all []byte
}

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, p...)
	return len(p), nil
}

func (w *writes) SetWriteDeadline(time.Time) error { return nil }

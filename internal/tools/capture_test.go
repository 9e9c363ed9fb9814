package tools

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/sandboxd/sandboxd/internal/budget"
)

// A program whose output does not fit into the memory of its account waits until it does, and nothing is lost.
func TestOutputWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Limits{Bytes: 64 << 20, Connections: 10, Concurrent: 10})
		other, err := b.Request("team")
		if err == nil {
			err = other.Take(30 << 20)
		}
		if err != nil {
			t.Fatal(err)
		}
		own, err := b.Request("team")
		if err != nil {
			t.Fatal(err)
		}
		defer own.Release()
		c := capture{room: &outputRoom{ctx: budget.With(t.Context(), own)}}
		text := bytes.Repeat([]byte("x"), 2*littleOutput)
		written := false
		go func() {
			_, _ = c.Write(text)
			written = true
		}()
		if synctest.Wait(); written {
			t.Error("it does not wait")
		}
		other.Release()
		if synctest.Wait(); !written || c.dropped > 0 || !bytes.Equal(c.head, text) {
			t.Errorf("written %v, %d bytes kept, %d lost", written, len(c.head), c.dropped)
		}
	})
}

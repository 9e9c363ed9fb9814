package undo

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/sandbox"
)

// A program that changes the attributes of one file all the time does not end the look at a tree. Otherwise it
// could hide what others delete.
func TestAttributesThatChangeWhileTheyAreRead(t *testing.T) {
	w := newWorld(t)
	w.person("f", "x")
	f := must(bareBox{w.user}.open(w.work+"/f", 0))
	defer f.Close()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprintf("user.%0*d", 1+i%100, i%5)
			_ = unix.Lsetxattr(w.work+"/f", name, []byte("x"), 0)
			time.Sleep(10 * time.Microsecond)
			_ = unix.Lremovexattr(w.work+"/f", name)
		}
	}()
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if _, err := sandbox.Extended(int(f.Fd())); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	<-done
}

package limit

import (
	"os"
	"testing"
	"time"
)

// TestChangedBytesAreByTheKernelsClock: a program can say when a file was modified, and
// give one file many names; neither changes what is counted.
func TestChangedBytesAreByTheKernelsClock(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		t.Helper()
		path := dir + "/" + name
		if err := os.WriteFile(path, make([]byte, 1<<20), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("before")
	time.Sleep(50 * time.Millisecond) // the clock of the file system is a tick behind
	since := time.Now()
	if got, _ := changedBytes([]string{dir}, since, 1<<40, anyDevice); got != 0 {
		t.Fatalf("%d bytes before anything is written", got)
	}
	fill := write("fill")
	long := time.Unix(1, 0)
	if err := os.Chtimes(fill, long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(fill, dir+"/again"); err != nil {
		t.Fatal(err)
	}
	if got, _ := changedBytes([]string{dir, dir}, since, 1<<40, anyDevice); got < 1<<20 || got >= 2<<20 {
		t.Errorf("%d bytes, want those of one file", got)
	}
}

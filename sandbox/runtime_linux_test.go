package sandbox

import (
	"os"
	"testing"
)

// TestRuntimesOfKilledProcesses: the directory of a process that was killed goes when
// the next one begins; one in use stays, and so does what somebody else has made.
func TestRuntimesOfKilledProcesses(t *testing.T) {
	parent := shortTemp(t)
	made := func() (string, *os.File) {
		t.Helper()
		dir, lock, err := makeRuntime(parent)
		if err == nil {
			err = os.Mkdir(dir+"/"+rootName, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		writeTree(t, dir+"/"+sessionPrefix+"x/tmp/file")
		return dir, lock
	}
	killed, lock := made()
	if err := os.Chmod(killed+"/"+sessionPrefix+"x/tmp", 0); err != nil { // as a program can
		t.Fatal(err)
	}
	lock.Close() // as the kernel does
	used, lock := made()
	defer lock.Close()
	other := parent + "/" + runtimePrefix + "src"
	writeTree(t, other+"/"+rootName+"/file")
	writeTree(t, other+"/file")

	last, lock := made()
	defer lock.Close()
	for path, want := range map[string]bool{killed: false, used: true, other: true, last: true} {
		if exists(path) != want {
			t.Errorf("%s is there: %v, want %v", path, !want, want)
		}
	}
}

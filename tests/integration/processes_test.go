package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

var naps atomic.Int64

// newNap is a time to sleep, in seconds, that no other process of the host sleeps, also not
// one of a run of these tests beside this one.
func newNap() string { return fmt.Sprintf("86400.%07d%d", os.Getpid(), naps.Add(1)) }

// withWord are the processes that have this word on their command line.
func withWord(word string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range all {
		text, err := os.ReadFile(f)
		pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err == nil && bad == nil && slices.Contains(strings.Split(string(text), "\x00"), word) {
			pids = append(pids, pid)
		}
	}
	return pids
}

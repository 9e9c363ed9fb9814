package limit

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DeletedBytes returns the size of the deleted files on a file system that a process, or a process below it, still
// has open. It reads the table of all processes, so do not call it often.
func DeletedBytes(pid int, device uint64) (sum int64) {
	seen := map[uint64]bool{}
	for _, p := range below(pid) {
		dir := fmt.Sprintf("/proc/%d/fd", p)
		fds, _ := os.ReadDir(dir) // of a process that has ended there are none
		for _, fd := range fds {
			var st unix.Stat_t
			if unix.Stat(dir+"/"+fd.Name(), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
				continue
			}
			if st.Nlink == 0 && st.Dev == device && !seen[st.Ino] {
				seen[st.Ino] = true
				sum += st.Blocks * 512
			}
		}
	}
	return sum
}

// below returns a process and all below it.
func below(pid int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		_, rest, found := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), ") ")
		if err != nil || !found {
			continue
		}
		if fields := strings.Fields(rest); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], p)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

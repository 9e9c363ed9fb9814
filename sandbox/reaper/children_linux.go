package reaper

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// children yields the children of this process. A list of the kernel's may lack one while others come and go.
func children(yield func(pid int) bool) {
	threads, err := names("/proc/self/task")
	if err != nil {
		return
	}
	for _, thread := range threads {
		list, err := os.ReadFile("/proc/self/task/" + thread + "/children")
		if os.IsNotExist(err) {
			fromStat(yield) // a kernel without CONFIG_PROC_CHILDREN
			return
		}
		for field := range bytes.FieldsSeq(list) {
			if pid, err := strconv.Atoi(string(field)); err == nil && !yield(pid) {
				return
			}
		}
	}
}

// fromStat yields them from the parents that all processes name.
func fromStat(yield func(pid int) bool) {
	all, err := names("/proc")
	if err != nil {
		return
	}
	self := os.Getpid()
	for _, name := range all {
		if pid, err := strconv.Atoi(name); err == nil {
			if up, ok := Parent(pid); ok && up == self && !yield(pid) {
				return
			}
		}
	}
}

func names(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Parent returns the parent of a process. It is not ok if the process is gone or hidden.
func Parent(pid int) (parent int, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// "pid (name) state ppid …", where the name may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, err == nil
}

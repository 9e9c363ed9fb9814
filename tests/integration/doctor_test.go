package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// lackEnv, in the environment, makes this program give up a layer of the kernel and
// become the program of its arguments.
const lackEnv = "SANDBOXD_TEST_LACK"

// refusal is a system call that fails, with mask only where a bit of it is in the
// argument arg, the first if it is 0.
type refusal struct {
	nr   uint32
	err  unix.Errno
	mask uint32
	arg  uint32
}

const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// lacks are the kernels that a host may have, by the row of doctor that is red on
// them.
var lacks = map[string][]refusal{
	"userns": {
		{nr: unix.SYS_UNSHARE, err: unix.EPERM}, {nr: unix.SYS_CLONE3, err: unix.ENOSYS}, {nr: unix.SYS_CLONE, err: unix.EPERM, mask: namespaces},
	},
	"netns": {
		{nr: unix.SYS_MOUNT, err: unix.EPERM},
		{nr: unix.SYS_MOVE_MOUNT, err: unix.ENOSYS},
		{nr: unix.SYS_FSMOUNT, err: unix.ENOSYS},
		{nr: unix.SYS_FSOPEN, err: unix.ENOSYS},
	},
	"landlock": {
		{nr: unix.SYS_LANDLOCK_CREATE_RULESET, err: unix.ENOSYS},
		{nr: unix.SYS_LANDLOCK_ADD_RULE, err: unix.ENOSYS},
		{nr: unix.SYS_LANDLOCK_RESTRICT_SELF, err: unix.ENOSYS},
	},
	"seccomp": {{nr: unix.SYS_SECCOMP, err: unix.ENOSYS}},
}

// cannotBind are hosts on which what a person approved cannot be bound.
var cannotBind = map[string][]refusal{
	"no tracing":    {{nr: unix.SYS_PTRACE, err: unix.EPERM}},
	"no listener":   {{nr: unix.SYS_SECCOMP, err: unix.EBUSY, mask: unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, arg: 1}},
	"an old kernel": {{nr: unix.SYS_SECCOMP, err: unix.EINVAL, mask: unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, arg: 1}},
}

// program is the filter that refuses them.
func program(list []refusal) []unix.SockFilter {
	const (
		nr   = 0  // offset of the number in the data of a filter
		arg0 = 16 // and of the low half of the first argument
	)
	op := func(code uint16, k uint32, jt, jf uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf}
	}
	load := func(at uint32) unix.SockFilter { return op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }
	out := []unix.SockFilter{load(nr)}
	for _, r := range list {
		fail := op(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(r.err), 0, 0)
		if r.mask == 0 {
			out = append(out, op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, r.nr, 0, 1), fail)
			continue
		}
		out = append(out, op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, r.nr, 0, 4), load(arg0+8*r.arg),
			op(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, r.mask, 0, 1), fail, load(nr))
	}
	return append(out, op(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0))
}

// without gives up a layer and becomes another program; it does not return.
func without(layer string, argv []string) {
	runtime.LockOSThread()
	code := program(slices.Concat(lacks[layer], cannotBind[layer], faulty[layer]))
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
	}
	if err == nil {
		err = syscall.Exec(argv[0], argv, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(99)
}

// TestDoctorSeesWhatIsMissing switches layers of the kernel off one at a time.
func TestDoctorSeesWhatIsMissing(t *testing.T) {
	d := newDaemon(t, "sandbox: {require: [userns, netns, landlock, seccomp]}\n")
	d.stop(os.Interrupt)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	doctor := []string{filepath.Join(bin, "sandboxd"), "doctor", "--json"}
	for layer := range lacks {
		t.Run(layer, func(t *testing.T) {
			cmd := exec.Command(exe, doctor...)
			cmd.Dir, cmd.Env = d.ws, append(append([]string{}, d.env...), lackEnv+"="+layer)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("exit status 0:\n%s", out)
			}
			var found []struct {
				Layer          string
				Needed, Proved bool
				What           string
			}
			if err := json.Unmarshal(out, &found); err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			red := false
			for _, f := range found {
				name, _, _ := strings.Cut(f.Layer, ":")
				if name == layer && f.Needed && !f.Proved && f.What != "" {
					red = true
				}
			}
			if !red {
				t.Errorf("no red row for %s:\n%s", layer, out)
			}
		})
	}
	t.Run("all there", func(t *testing.T) {
		cmd := exec.Command(doctor[0], doctor[1:]...)
		cmd.Dir, cmd.Env = d.ws, d.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			needs.Missing(t, "this kernel lacks a layer itself: %v\n%s", err, out)
		}
	})
}

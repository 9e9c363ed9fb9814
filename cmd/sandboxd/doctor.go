package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/sandbox"
)

// finding is one line of the doctor's table.
type finding struct {
	Layer  string `json:"layer"`
	Needed bool   `json:"needed"` // sandbox.require names it
	Proved bool   `json:"proved"`
	What   string `json:"what"` // what was tried, or what its absence means
}

// doctorCmd tries the forbidden acts in a live sandbox.
func doctorCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Prove on this host what the sandbox stops",
		Long: `Starts a sandbox as calls get it and tries in it what it must stop. The exit
status is 0 when everything that sandbox.require names, and the acts without
which nothing is confined, are proved.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := examine(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), found)
			} else {
				err = printFindings(cmd.OutOrStdout(), found)
			}
			for _, f := range found {
				if f.Needed && !f.Proved {
					return exitStatus(exitFailed)
				}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printFindings(out io.Writer, found []finding) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LAYER\tNEEDED\tPROVED\tWHAT")
	yes := map[bool]string{true: "yes", false: "no"}
	for _, f := range found {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Layer, yes[f.Needed], yes[f.Proved], f.What)
	}
	return w.Flush()
}

// act is something that must fail in the sandbox. The script exits 0 when it
// succeeded, which is then a hole.
type act struct {
	layer, what, script string
}

func examine(ctx context.Context) ([]finding, error) {
	h, err := loadHouse(nil)
	if err != nil {
		return nil, err
	}
	backend, err := h.backend("")
	if err != nil {
		return nil, err
	}
	defer backend.Close()
	rep := backend.Probe()
	acts, closeListener, err := forbiddenActs()
	if err != nil {
		return nil, err
	}
	defer closeListener()
	settings := h.settings
	settings.DeniedPaths = append(slices.Clone(settings.DeniedPaths), deniedForTest)
	weaker := settings
	weaker.Require = nil // what is missing becomes a row, and not the end
	box, err := backend.Box(ctx, "doctor", h.cfg.Profile, weaker)
	if err == nil {
		defer box.Close()
	}
	var found []finding
	for _, a := range acts {
		f := finding{Layer: a.layer, Needed: true}
		var out string
		code, cannot := 0, err
		if cannot == nil {
			out, code, cannot = tryIn(ctx, box, h.roots[0], a.script)
		}
		switch {
		case cannot != nil:
			f.What = a.what + ": not tried: " + cannot.Error()
		case code == 0:
			f.What = a.what + ": NOT stopped " + strings.TrimSpace(out)
		default:
			f.Proved, f.What = true, a.what+": stopped"
		}
		found = append(found, f)
	}
	found = append(found, finding{"rung", true, rep.Rung != "", rungs[rep.Rung]})
	for _, layer := range rep.Layers {
		found = append(found, finding{layer, required(settings, layer), true, "the kernel gives it"})
	}
	for _, layer := range rep.Missing {
		name, why, _ := strings.Cut(layer, ": ")
		found = append(found, finding{name, required(settings, layer), false, or(why, "missing on this host")})
	}
	split := h.roleSplit()
	found = append(found, finding{"role_split", false, split == "enforced", split + ": daemon and agent share a uid, so an agent that leaves the sandbox could answer its own questions"})
	if split == "enforced" {
		found[len(found)-1].What = "the daemon has a uid of its own"
	}
	return found, nil
}

// rungs say what holds a program, from the strongest down.
var rungs = map[string]string{
	"namespaces": "the first: namespaces, Landlock and seccomp",
	"landlock":   "the second: Landlock and seccomp without namespaces; there are no sockets, and some files that may be written are not",
	"":           "none: nothing runs",
}

func required(s sandbox.Settings, layer string) bool {
	name, _, _ := strings.Cut(layer, ":")
	return slices.Contains(s.Require, name)
}

// deniedForTest is a file that every host has and everybody may read, so that only
// the settings can keep it away.
const deniedForTest = "/etc/hosts"

// forbiddenActs listens on the host's loopback, and says how a program would try
// to get there and elsewhere.
func forbiddenActs() ([]act, func() error, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return []act{
		{"files", "read a denied file", "cat " + deniedForTest},
		{"files", "write to the system", "echo x > /usr/.sandboxd-doctor"},
		{"processes", "signal a process of the host", fmt.Sprintf("kill -0 %d", os.Getpid())},
		{"network", "connect to the loopback of the host", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", port)},
		{"privileges", "run without no_new_privs", unlessStatus("NoNewPrivs:", "1")},
		{"privileges", "keep capabilities", unlessStatus("CapEff:", "0000000000000000")},
		{"seccomp", "run without a system call filter", unlessStatus("Seccomp:", "2")},
	}, l.Close, nil
}

// unlessStatus fails where the kernel says that of the shell itself, which alone may
// read its own status on every rung.
func unlessStatus(key, value string) string {
	return fmt.Sprintf(`while read -r k v; do [ "$k $v" = "%s %s" ] && exit 1; done < /proc/self/status; exit 0`, key, value)
}

func tryIn(ctx context.Context, box sandbox.Box, dir, script string) (string, int, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var out bytes.Buffer
	proc, err := box.Start(ctx, sandbox.Spec{Argv: []string{"bash", "--norc", "--noprofile", "-c", script}, Dir: dir, Stdout: &out, Stderr: &out})
	if err != nil {
		return "", 0, err
	}
	exit, err := proc.Wait()
	return out.String(), exit.Code, err
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

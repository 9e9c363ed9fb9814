package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// tryNetwork is the inside of the cage of the tests below: a line for each address.
func tryNetwork(what string, addrs []string) {
	for _, a := range addrs {
		network, addr, _ := strings.Cut(a, "=")
		var err error
		if what == "listen" {
			_, err = net.Listen(network, addr)
		} else {
			_, err = net.Dial(network, addr)
		}
		fmt.Printf("%s works: %v (%v)\n", a, err == nil, err)
	}
	os.Exit(0)
}

// TestX06_CX63_NestedSandboxes: no by default, and what the settings say is kept.
// The kernel refuses namespaces in any case; who may start such a program is a rule
// of the policies. A weaker cage is never made on request, and a warning says so.
func TestX06_CX63_NestedSandboxes(t *testing.T) {
	if s := guard.DefaultSettings("/w", "", nil); s.AllowNestedSandbox || s.EnableWeakerNestedSandbox {
		t.Errorf("on by default: %+v", s)
	}
	_, warnings, err := guard.Settings{EnableWeakerNestedSandbox: true}.Normalise()
	if err != nil || !slices.ContainsFunc(warnings,
		func(w string) bool { return strings.HasPrefix(w, "enableWeakerNestedSandbox changes nothing") }) {
		t.Errorf("warnings %q, %v", warnings, err)
	}
	cage := newCage(t, Options{})
	needCage(t, cage)
	ws := shortTemp(t)
	for _, nested := range []bool{false, true} {
		s := guard.DefaultSettings(ws, "", nil)
		s.AllowNestedSandbox, s.EnableWeakerNestedSandbox = nested, nested
		box := newBox(t, cage, "strict", s)
		if e, out := runIn(t, box, ws, "unshare", "-U", "true"); e.Code == 0 ||
			!strings.Contains(out, "not permitted") {
			t.Errorf("nested %v: exit %d, %s", nested, e.Code, out)
		}
	}
}

// TestX08_CX62_UnconfinedReachesAllButSecrets: what a person may allow to a call is
// every file but the denied ones, in the cage as for the file tools.
func TestX08_CX62_UnconfinedReachesAllButSecrets(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		bothLevels(t, func(t *testing.T, cage Backend) {
			base, err := os.MkdirTemp(os.Getenv("HOME"), "cage-unconfined-")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(base)
			ws, secret := filepath.Join(base, "ws"), filepath.Join(base, ".ssh")
			if err := errors.Join(os.Mkdir(ws, 0o755), os.Mkdir(secret, 0o755),
				os.Mkdir(filepath.Join(base, "out"), 0o755),
				os.WriteFile(filepath.Join(secret, "key"), []byte("secret"), 0o644)); err != nil {
				t.Fatal(err)
			}
			s := guard.DefaultSettings(ws, base, nil)
			script := "echo x > ../out/f; cat ../out/f; cat ../.ssh/key"
			if e, out := runIn(t, newBox(t, cage, "strict", s), ws, "sh", "-c", script); e.Code == 0 ||
				strings.Contains(out, "x\n") || strings.Contains(out, "secret\n") {
				t.Errorf("confined: exit %d, %s", e.Code, out)
			}
			if e, out := runIn(t, newBox(t, cage, "strict", s.Unconfine()), ws, "sh", "-c", script); e.Code == 0 ||
				!strings.HasPrefix(out, "x\n") || strings.HasSuffix(out, "secret") {
				t.Errorf("unconfined: exit %d, %s", e.Code, out)
			}
		})
	})
}

// TestX08_UnconfinedKeepsWhatRunsOutside: who agrees that a call writes everywhere
// does not agree to what it would have run outside of the cage afterwards.
func TestX08_UnconfinedKeepsWhatRunsOutside(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		for _, noNamespaces := range []bool{false, true} {
			t.Run(fmt.Sprintf("no namespaces %v", noNamespaces),
				func(t *testing.T) { unconfinedKeeps(t, noNamespaces) })
		}
	})
}

func unconfinedKeeps(t *testing.T, noNamespaces bool) {
	base, err := os.MkdirTemp(os.Getenv("HOME"), "cage-unconfined-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if base, err = filepath.EvalSymlinks(base); err != nil {
		t.Fatal(err)
	}
	ws := base + "/ws"
	for _, p := range []string{
		"/.git/hooks/pre-commit.sample", "/.git/config", "/.envrc", "/.vscode/tasks.json",
		"/src/file",
	} {
		writeTree(t, ws+p)
	}
	cage := newCage(t, Options{Home: base, Roots: are(ws), NoNamespaces: noNamespaces})
	if needCage(t, cage); noNamespaces {
		needNoNamespaces(t, cage)
	}
	box := newBox(t, cage, "strict", guard.DefaultSettings(ws, base, nil).Unconfine())
	_, out := runIn(t, box, ws, "sh", "-c", `
for f in .git/hooks/pre-commit .git/hooks/pre-commit.sample .git/config .envrc .vscode/tasks.json; do (echo x >> $f) 2>&- && echo "$f was written"; done
mv .git .gone 2>&- && echo "the directory above was renamed"
echo x > src/file && cat src/file`)
	if out != "x\n" {
		t.Errorf("a program: %s", out)
	}
	for _, p := range []string{"/.git/hooks/pre-commit", "/.git/config", "/.envrc"} {
		if f, err := box.Open(t.Context(), guard.PathUse{Path: ws + p, Op: guard.Write}, os.O_WRONLY); err == nil {
			f.Close()
			t.Errorf("a file tool opens %s for writing", p)
		}
	}
	if noNamespaces {
		return // nothing new can be made directly in the workspace
	}
	// What was not there is looked for when the call is over.
	hook := ws + "/new/.git/hooks"
	e, out := runIn(t, box, ws, "sh", "-c", "mkdir -p new/.git/hooks && cp /bin/true new/.git/hooks/post-checkout && echo made")
	if out != "made\n" || exists(hook) {
		t.Errorf("a new repository with a hook: %+v %s; it is there: %v", e, out, exists(hook))
	}
}

// TestX10_ServersBindOnlyWhereAllowed: on the call's own loopback, by TCP; without
// namespaces there is none.
func TestX10_ServersBindOnlyWhereAllowed(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		if (guard.Settings{}).Network.AllowLocalBinding || guard.DefaultSettings("/w", "",
			nil).Network.AllowLocalBinding {
			t.Error("allowed by default")
		}
		bothLevels(t, func(t *testing.T, cage Backend) {
			if cage.Probe().Landlock < 4 {
				needs.Missing(t, "this kernel's Landlock does not know of ports, which the report says")
			}
			ws := shortTemp(t)
			copyFile(t, "/proc/self/exe", ws+"/try", 0o755)
			for _, allowed := range []bool{false, true} {
				s := guard.DefaultSettings(ws, "", nil)
				s.Network.AllowLocalBinding = allowed
				box := newBox(t, cage, "strict", s)
				addrs := []string{"tcp4=127.0.0.1:0", "tcp4=127.0.0.1:8123", "tcp4=:0", "tcp6=[::]:0"}
				_, out := runIn(t, box, ws, append([]string{"./try", "-network", "listen"}, addrs...)...)
				for _, addr := range addrs {
					want := allowed && cage.Probe().Isolation == "namespaces"
					if strings.HasPrefix(addr, "tcp6") && want && strings.Contains(out, "not supported") {
						continue // a kernel without IPv6
					}
					if !strings.Contains(out, fmt.Sprintf("%s works: %v ", addr, want)) {
						t.Errorf("allowed %v, want %v: %s", allowed, want, out)
					}
				}
			}
		})
	})
}

// TestX12_CX64_TheNetworkBlockIsEnforced: what a command line names is held against the list
// before it runs. What it connects to is in network_linux_test.go.
func TestX12_CX64_TheNetworkBlockIsEnforced(t *testing.T) {
	s := guard.Settings{Network: guard.Network{AllowedDomains: []string{"api.example.com"}}}
	for host, want := range map[string]bool{
		"api.example.com": true, "evil.test": false,
		"api.example.com.evil.test": false,
	} {
		if got := guard.NewRules(s).Check(guard.Uses{Hosts: []string{host}}) == nil; got != want {
			t.Errorf("%s: allowed %v, want %v", host, got, want)
		}
	}
}

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSecretsOfTheFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good, open := write("good", "tok_0123456789", 0o600), write("open", "tok_0123456789", 0o644)
	program := write("program", "#!/bin/sh\nexit 1\n", 0o700)
	h := newHome(t)
	inside := filepath.Join(h.dir, "token")
	if err := os.WriteFile(inside, []byte("tok_0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(inside, link); err != nil {
		t.Fatal(err)
	}
	command := func(argv ...string) string {
		return fmt.Sprintf(`secrets: [{host: a.test, command: ["%s"]}]`, strings.Join(argv, `", "`))
	}
	for _, tt := range []struct{ name, network, want string }{
		{"good", fmt.Sprintf("secrets: [{host: a.test, file: %s}]", good), ""},
		{"a program, which does not run", fmt.Sprintf("secrets: [{host: a.test, command: [%s]}]", program), ""},
		{"for a host that is not intercepted", fmt.Sprintf("secrets: [{host: b.test, file: %s}]", good), "secrets[0]: b.test is not in"},
		{"that others can read", fmt.Sprintf("secrets: [{host: a.test, file: %s}]", open), "chmod 600"},
		{"that agents can write", fmt.Sprintf("secrets: [{host: a.test, file: %s}]", inside), "agents can write"},
		{"that is gone", "secrets: [{host: a.test, file: /nowhere/token}]", "no such file"},
		{"of a program that is gone", "secrets: [{host: a.test, command: [/nowhere/pass]}]", "there is no program"},
		{"of a script that agents can write", command("/bin/sh", inside), "agents can write"},
		{"of one that is not there yet", command("/bin/sh", inside+"-later"), "agents can write"},
		{"of one behind a link", command("/bin/sh", link), "agents can write"},
		{"of one from where it runs", command("/bin/sh", strings.TrimPrefix(inside, "/")), "agents can write"},
		{"of one in an option", command("/bin/sh", "--init-file="+inside), "agents can write"},
		{"of one in a text", command("/bin/sh", "-c", ". "+inside+"; true"), "agents can write"},
		{"of words", command("/bin/echo", "get", "token", "--host=https://a.test/x", good), ""},
		{"no authorities", "caFile: " + good, "no certificate"},
		{"no file of authorities", "caFile: /nowhere/ca.pem", "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := h.load("sandbox:\n  network:\n    allowedDomains: [a.test]\n    intercept: [a.test]\n    " + tt.network + "\n")
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if err == nil && tt.name == "good" && !slices.Contains(c.Sandbox.DeniedPaths, good) {
				t.Errorf("programs may read it: %q", c.Sandbox.DeniedPaths)
			}
		})
	}
}

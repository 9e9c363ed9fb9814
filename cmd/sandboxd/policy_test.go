package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestThePagesRun runs every console block of a page in one directory, in order. In
// the expected output … is any text, and a line that begins with ! is part of an
// error.
func TestThePagesRun(t *testing.T) {
	for _, tt := range []struct {
		page  string
		least int // commands
	}{{"policies.md", 5}, {"guard.md", 1}} {
		t.Run(tt.page, func(t *testing.T) {
			page, err := os.ReadFile("../../docs/" + tt.page)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			t.Setenv("HOME", "/home/dev") // as on the pages
			commands := 0
			for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
				for _, step := range strings.Split(block[1], "$ ")[1:] {
					line, want, _ := strings.Cut(step, "\n")
					commands++
					runStep(t, line, want)
				}
			}
			if commands < tt.least {
				t.Errorf("%d commands were found, want %d", commands, tt.least)
			}
		})
	}
}

func runStep(t *testing.T, line, want string) {
	t.Helper()
	if rest, ok := strings.CutPrefix(line, "sed -i "); ok {
		substitute(t, rest)
		return
	}
	words := shellWords(line)
	if words[0] != "sandboxd" {
		t.Fatalf("the page runs %q, which this test does not know", line)
	}
	var out bytes.Buffer
	c := rootCmd()
	c.SetArgs(words[1:])
	c.SetOut(&out)
	err := c.Execute()
	if part, ok := strings.CutPrefix(want, "! "); ok {
		if err == nil || !regexp.MustCompile(pattern(strings.TrimSpace(part))).MatchString(err.Error()) {
			t.Errorf("$ %s\nerror %v, want one with %q", line, err, part)
		}
		return
	}
	if _, verdict := err.(exitStatus); err != nil && !verdict {
		t.Fatalf("$ %s: %v", line, err)
	}
	if !regexp.MustCompile(`\A` + pattern(want) + `\z`).MatchString(out.String()) {
		t.Errorf("$ %s\n%swant\n%s", line, out.String(), want)
	}
}

func pattern(s string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(s), "…", ".*")
}

// substitute is sed -i 's/a/b/' FILE.
func substitute(t *testing.T, rest string) {
	t.Helper()
	words := shellWords(rest)
	parts := strings.Split(words[0], "/")
	b, err := os.ReadFile(words[1])
	if err != nil {
		t.Fatal(err)
	}
	after := strings.ReplaceAll(string(b), parts[1], parts[2])
	if after == string(b) {
		t.Fatalf("sed %s changes nothing", rest)
	}
	if err := os.WriteFile(words[1], []byte(after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shellWords splits at spaces outside single quotes.
func shellWords(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

func TestPolicyCommandRefusesBadInput(t *testing.T) {
	for _, tt := range []struct{ args, stdin, want string }{
		{"eval --mode yolo -c ls", "", "not a permission mode"},
		{"eval", "{", "read an example"},
		{"eval", `{"tol": "Read"}`, "unknown field"},
		{"eval", `{}`, "neither a command nor a tool"},
		{"check --profile lax", "", `"lax"`},
		{"bench --count 0 -c ls", "", "at least 1"},
		{"init x --owner core", "", "cannot be the owner"},
		{"check /nonexistent", "", "/nonexistent"},
	} {
		c := policyCmd()
		c.SetArgs(strings.Fields(tt.args))
		c.SetIn(strings.NewReader(tt.stdin))
		c.SetOut(&bytes.Buffer{})
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("policy %s: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
}

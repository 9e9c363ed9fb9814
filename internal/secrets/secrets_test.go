package secrets_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/secrets"
)

func Example() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "token")
	_ = os.WriteFile(file, []byte("tok_0123456789\n"), 0o600)

	secret := guard.Secret{Host: "api.test", Value: "Bearer {{file}}", File: file}
	r := &secrets.Reader{}
	token, err := r.Value(context.Background(), secret)
	fmt.Printf("%q %v\n", secret.Fill(token), err)
	// Output: "Bearer tok_0123456789" <nil>
}

func TestFiles(t *testing.T) {
	long := strings.Repeat("x", 9000)
	for _, tt := range []struct{ name, text, want, wrong string }{
		{"plain", "tok_0123456789", "tok_0123456789", ""},
		{"with a line break at its end", "tok_0123456789\r\n", "tok_0123456789", ""},
		{"with a line break", "tok_0123\nX-Other: 1\n", "", "several lines"},
		{"with a return", "tok_0123\r456789", "", "several lines"},
		{"with a control character", "tok_0123\x01456789", "", "control characters"},
		{"empty", "\n", "", "is empty"},
		{"short", "1234567", "", "less than 8"},
		{"as long as one may be", long[:8192] + "\r\n", long[:8192], ""},
		{"long", long[:8193], "", "more than 8192"},
		{"with a space", " tok_0123456789", "", "begins or ends with a space"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			check := func(s guard.Secret) {
				got, err := (&secrets.Reader{}).Value(t.Context(), s)
				if got != tt.want || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
					t.Errorf("got %q, %v", got, err)
				}
				if err != nil && strings.Contains(err.Error(), "tok_0123") {
					t.Errorf("the error has it: %v", err)
				}
			}
			check(guard.Secret{File: file})
			check(guard.Secret{Command: []string{"/bin/cat", file}})
			t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(file))
			check(guard.Secret{Credential: "token"})
		})
	}
}

func TestFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("tok_0123456789"), 0o640); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	for want, s := range map[string]guard.Secret{
		"chmod 600":      {File: file},
		"regular file":   {File: dir},
		"pipe is not a":  {File: pipe},
		"no such file":   {File: filepath.Join(dir, "none")},
		"LoadCredential": {Credential: "token"},
	} {
		if _, err := (&secrets.Reader{}).Value(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestCommands run once for all who ask, and say how they failed without what they printed.
func TestCommands(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	s := guard.Secret{Command: []string{"/bin/sh", "-c", "echo x >> " + count + "; echo tok_0123456789"}}
	r := &secrets.Reader{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := r.Value(t.Context(), s); got != "tok_0123456789" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	all.Wait()
	if runs, _ := os.ReadFile(count); string(runs) != "x\n" {
		t.Errorf("it ran %q", runs)
	}
	for want, argv := range map[string][]string{
		"failed: exit status 3":   {"/bin/sh", "-c", "echo tok_0123456789; echo tok_0123456789 >&2; exit 3"},
		"no such file":            {"/nowhere/program"},
		"prints is empty":         {"/bin/true"},
		"more than 8192":          {"/bin/sh", "-c", "yes tok_0123456789 | head -c 100000"},
		"several lines; a header": {"/bin/sh", "-c", "echo tok_0123456789; echo second"},
	} {
		_, err := r.Value(t.Context(), guard.Secret{Command: argv})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if err != nil && strings.Contains(err.Error(), "tok_0123456789") && len(argv) < 3 {
			t.Errorf("the error has it: %v", err)
		}
	}
}

// TestWhatACommandPrintsIsKept: for five minutes, and that it failed for five seconds.
// TestCommandsRunAsThisProcess: with its environment, whether or not the one who asks waits on.
func TestCommandsRunAsThisProcess(t *testing.T) {
	t.Setenv("SECRETS_TEST", "tok_0123456789")
	ctx, leave := context.WithCancel(t.Context())
	leave()
	s := guard.Secret{Command: []string{"/bin/sh", "-c", "echo $SECRETS_TEST"}}
	if got, err := (&secrets.Reader{}).Value(ctx, s); got != "tok_0123456789" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWhatACommandPrintsIsKept(t *testing.T) {
	for _, tt := range []struct {
		name, end string
		lasts     time.Duration
	}{{"printed", "echo tok_0123456789", 5 * time.Minute}, {"failed", "exit 3", 5 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			count := filepath.Join(t.TempDir(), "count")
			s := guard.Secret{Command: []string{"/bin/sh", "-c", "echo x >> " + count + "; " + tt.end}}
			synctest.Test(t, func(t *testing.T) {
				r := &secrets.Reader{}
				for _, after := range []struct {
					time time.Duration
					runs string
				}{{0, "x\n"}, {tt.lasts - time.Millisecond, "x\n"}, {time.Millisecond, "x\nx\n"}} {
					time.Sleep(after.time)
					_, err := r.Value(t.Context(), s)
					if runs, _ := os.ReadFile(count); string(runs) != after.runs {
						t.Errorf("after another %v: it ran %q, want %q; %v", after.time, runs, after.runs, err)
					}
				}
			})
		})
	}
}

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStoreOfTheFile: what could not work is refused, and the password is in no answer and in
// reach of no call.
func TestStoreOfTheFile(t *testing.T) {
	h := newHome(t)
	password := func(dir, name string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("hunter22\r\n"), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	const url = "store: {url: 'postgres://db.example.com/sandboxd'"
	good := password(h.away, "password", 0o600)
	c, err := h.load(url + ", timeout: 100ms, maxConns: 3, passwordFile: " + good + "}")
	if err != nil {
		t.Fatal(err)
	}
	if c.Store.Password != "hunter22" {
		t.Errorf("got %q", c.Store.Password)
	}
	for _, v := range c.Explain() {
		if strings.Contains(string(v.Value), "hunter22") {
			t.Errorf("%s shows the password", v.Key)
		}
	}
	if _, err := h.load(url + ", timeout: 1m, maxConns: 1000}"); err != nil {
		t.Errorf("the largest values: %v", err)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"another database", "store: {url: 'mysql://db.example.com/x'", "url: "},
		{"too short", url + ", timeout: 99ms", "timeout: 99ms is not between 100ms and 1m0s"},
		{"too long", url + ", timeout: 61s", "timeout: 1m1s is not between"},
		{"too few", url + ", maxConns: 2", "maxConns: 2 is not between 3 and 1000"},
		{"too many", url + ", maxConns: 1001", "maxConns: 1001 is not between"},
		{
			"a relative file", url + ", passwordFile: secret",
			"passwordFile \"secret\" is relative; write the absolute path",
		},
		{"where agents write", url + ", passwordFile: " + password(h.dir, "p", 0o600), "agents can write"},
		{"no file", url + ", passwordFile: " + filepath.Join(h.away, "none"), "read passwordFile: open "},
		{"open to others", url + ", passwordFile: " + password(h.away, "open", 0o644), "chmod 600"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := h.load(tt.text + "}")
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "store") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

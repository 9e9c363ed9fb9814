package config

import (
	"os"
	"testing"
)

func TestNamesOfAccounts(t *testing.T) {
	h := newHome(t)
	for _, tt := range []struct {
		name, account string
		ok            bool
	}{
		{"letters, digits and the three signs", "1000: Team-a_1.x", true},
		{"a name that begins like those of the daemon", "1000: uid-1000x", true},
		{"a slash, as in a path", "1000: a/b", false},
		{"a space", "1000: 'a b'", false},
		{"a line break, as in a header or a log", `1000: "a\nb"`, false},
		{"a line break at the end", `1000: "a\n"`, false},
		{"a letter that looks like another", "1000: аdmin", false},
		{"a quote", `1000: 'a"b'`, false},
		{"nothing", "1000: ''", false},
		{"a list", "1000: [a]", false},
		{"the account of the daemon's own uid", "1000: default-admin", false},
		{"the account of another uid", "1000: uid-1001", false},
		{"the account that it would have anyway", "1000: uid-1000", false},
		{"a uid below zero", "-1: a", false},
		{"a uid that the kernel gives nobody", "4294967295: a", false},
		{"a uid in another notation", "01000: a", false},
	} {
		c, err := h.load("accounts:\n  " + tt.account + "\n")
		if tt.ok != (err == nil) {
			t.Errorf("%s: got %v, want accepted %v", tt.name, err, tt.ok)
		}
		if tt.ok && err == nil && c.Accounts.Names[1000] == "" {
			t.Errorf("%s: the accounts are %v", tt.name, c.Accounts)
		}
	}
}

// Two uids share an account only if the file says so.
func TestAccountOfAUID(t *testing.T) {
	h := newHome(t)
	const own = 990
	for _, tt := range []struct {
		name, text string
		uid        int
		account    string
		refused    bool
	}{
		{"a uid with a name", "accounts: {1000: ann}\n", 1000, "ann", false},
		{"two uids with one name", "accounts: {1000: ann, 1001: ann}\n", 1001, "ann", false},
		{"a uid without a name", "accounts: {1000: ann}\n", 1001, "uid-1001", false},
		{"a uid, and no names at all", "", 1001, "uid-1001", false},
		{"a uid beside an empty key", "accounts:\n", 1001, "uid-1001", false},
		{"root beside a daemon that is not root", "", 0, "uid-0", false},
		{"the daemon's own uid", "", own, "default-admin", false},
		{"the daemon's own uid with a name", "accounts: {990: me}\n", own, "me", false},
		{"a stranger where only names are let in", "accounts: {1000: ann, others: refuse}\n", 1001, "uid-1001", true},
		{"a name where only names are let in", "accounts: {1000: ann, others: refuse}\n", 1000, "ann", false},
		{"the daemon's own uid there", "accounts: {others: refuse}\n", own, "default-admin", false},
	} {
		c, err := h.load(tt.text)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if account, ok := c.Accounts.Of(tt.uid, own); account != tt.account || ok == tt.refused {
			t.Errorf("%s: got %q, let in %v, want %q, %v", tt.name, account, ok, tt.account, !tt.refused)
		}
	}
	if _, ok := (Accounts{}).Of(os.Getuid()+1, os.Getuid()); ok {
		t.Error("without a word on others they are let in")
	}
}

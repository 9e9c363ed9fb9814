package setup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// systemd is a host that has it, and notes what is run. The first program that begins with fails, if any, fails.
func systemd(t *testing.T, fails string) (Host, *[]string) {
	t.Helper()
	var ran []string
	run := func(_ context.Context, argv ...string) error {
		ran = append(ran, strings.Join(argv, " "))
		if fails != "" && strings.Contains(ran[len(ran)-1], fails) {
			return errors.New("it is not so")
		}
		return nil
	}
	return Host{Root: t.TempDir(), Program: "/usr/bin/sandboxd", Run: run, Systemd: true}, &ran
}

// Units are started once, by the manager of the person, and an undo stops them before it removes their files.
func TestUnitsAreStartedAndStopped(t *testing.T) {
	const (
		ask    = "systemctl --user is-enabled --quiet sandboxd.service"
		ask2   = "systemctl --user is-active --quiet sandboxd.service"
		reload = "systemctl --user daemon-reload"
		start  = "systemctl --user enable --now sandboxd.service"
		stop   = "systemctl --user disable --now sandboxd.service"
	)
	for _, tt := range []struct {
		name, fails string
		want        []string // what setup runs
		undone      []string // what its undo runs after that
	}{
		{
			"they are not enabled", "is-enabled",
			[]string{ask, reload, start},
			[]string{stop, reload},
		},
		{
			"they are enabled and do not run", "is-active",
			[]string{ask, ask2, reload, start},
			[]string{stop, reload},
		},
		{
			"they run", "",
			[]string{ask, ask2},
			[]string{reload},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host, ran := systemd(t, tt.fails)
			p, err := Person(host, Options{ConfigHome: "/home/ann/.config"})
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := p.Do(t.Context(), Show{Out: &out}); err != nil || !slices.Equal(*ran, tt.want) {
				t.Errorf("%v, it ran\n%s", err, strings.Join(*ran, "\n"))
			}
			*ran = nil
			if err := p.Undo(t.Context(), Show{Out: &out}); err != nil || !slices.Equal(*ran, tt.undone) {
				t.Errorf("%v, the undo ran\n%s\n%s", err, strings.Join(*ran, "\n"), &out)
			}
		})
	}
}

// Who says no, at setup and at its undo, gets nothing made and nothing removed.
func TestNothingIsDoneThatNobodyConfirms(t *testing.T) {
	failed := errors.New("no terminal")
	for _, tt := range []struct {
		name string
		says func() (bool, error)
		want error
	}{
		{"no", func() (bool, error) { return false, nil }, ErrDeclined},
		{"nobody can be asked", func() (bool, error) { return false, failed }, failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := Host{Root: t.TempDir(), Program: "/usr/bin/sandboxd"}
			p, err := Person(host, Options{ConfigHome: "/c"})
			if err != nil {
				t.Fatal(err)
			}
			unit, show := host.at("/c/systemd/user/sandboxd.service"), Show{Out: io.Discard, Confirm: tt.says}
			if err := p.Do(t.Context(), show); !errors.Is(err, tt.want) {
				t.Errorf("setup: %v", err)
			}
			if _, err := os.Lstat(unit); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the unit was made: %v", err)
			}
			if err := p.Do(t.Context(), Show{Out: io.Discard}); err != nil {
				t.Fatal(err)
			}
			if err := p.Undo(t.Context(), show); !errors.Is(err, tt.want) {
				t.Errorf("undo: %v", err)
			}
			if _, err := os.Lstat(unit); err != nil {
				t.Errorf("the unit was removed: %v", err)
			}
		})
	}
}

// What is gone already is no failure of an undo, and what this version does not know is left and said.
func TestUndoGoesOnWhereThingsAreGone(t *testing.T) {
	for _, tt := range []struct {
		name    string
		made    made
		systemd bool
		left    string
	}{
		{"units, without systemd", made{Kind: Started, Name: "sandboxd.service"}, false, ""},
		{"a user", made{Kind: User, Name: "gone"}, true, ""},
		{"a group", made{Kind: Group, Name: "gone"}, true, ""},
		{"something new", made{Kind: "certificate", Name: "x"}, true, "this version does not know what it is"},
		{"a directory that is a file now", made{Kind: Dir, Name: "/file"}, true, "not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host, ran := systemd(t, "")
			host.Systemd = tt.systemd
			if err := os.WriteFile(host.at("/file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			left, err := (&Plan{host: host}).remove(t.Context(), tt.made, nil)
			if err != nil || left != tt.left || len(*ran) > 0 {
				t.Errorf("left %q, %v, and it ran %q", left, err, *ran)
			}
		})
	}
}

// What setup cannot do is an error before anything is made.
func TestWhatSetupRefuses(t *testing.T) {
	host := Host{Root: t.TempDir(), Projects: partOf("/srv")}
	_, err := Person(host, Options{Accounts: []string{"ann"}})
	if err == nil || !strings.Contains(err.Error(), "no accounts") {
		t.Errorf("a person's daemon with accounts: %v", err)
	}
	p := &Plan{host: host}
	for _, err := range []error{os.Mkdir(host.at("/etc"), 0o755), os.Mkdir(host.at("/etc/dir"), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.makeFile("/etc/dir", nil, 0o600, owner{}, "", "")
	p.makeMember("ann", "sandboxd", "")
	p.allow("/srv/a")
	for i, want := range []string{
		"/etc/dir is no regular file", `this host has no user "ann"`, "allowed, as a part of /srv",
	} {
		there, err := p.steps[i].there()
		if err != nil {
			there += err.Error()
		}
		if there != want {
			t.Errorf("got %q, want %q", there, want)
		}
	}
	for _, tt := range []struct {
		o    owner
		want string
	}{{owner{user: "ann"}, `there is no user "ann"`}, {owner{group: "staff"}, `there is no group "staff"`}} {
		p := &Plan{host: host}
		p.makeFile("/etc/file", []byte("text"), 0o600, tt.o, "", "")
		if err := p.steps[0].do(t.Context()); err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
		if left, err := os.ReadDir(host.at("/etc")); err != nil || len(left) != 1 {
			t.Errorf("left are %v, %v", left, err)
		}
	}
}

// partOf holds every directory in one project.
type partOf string

func (p partOf) In(string) (string, error)          { return string(p), nil }
func (partOf) Allow(context.Context, string) error  { return nil }
func (partOf) Remove(context.Context, string) error { return nil }

// What the system's daemon has is closed to everybody else, and so is shown before it is made.
func TestWhatTheSystemsDaemonGets(t *testing.T) {
	host := Host{Root: t.TempDir(), Program: "/usr/bin/sandboxd"}
	users := "ann:x:1001:1001::/home/ann:/bin/sh\nolga:x:1002:1002::/home/olga:/bin/sh\n"
	if err := errors.Join(os.Mkdir(host.at("/etc"), 0o755), os.WriteFile(host.at("/etc/passwd"), []byte(users), 0o644),
		os.WriteFile(host.at("/etc/group"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	p, err := System(host, Options{Accounts: []string{"ann"}, Operators: []string{"olga"}, Workspaces: []string{"/srv/project"}})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := p.Do(t.Context(), Show{Out: &out, DryRun: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"group     sandboxd-agents:", "group     sandboxd-operators:", "user      sandboxd: useradd --system,",
		"member    ann sandboxd-agents:", "member    olga sandboxd-operators:", "directory /etc/sandboxd: mode 0750,",
		"directory /var/lib/sandboxd: mode 0700,", "directory /var/lib/sandboxd-key: mode 0700,",
		"file      /etc/sandboxd/config.yaml: mode 0640,", "file      /etc/systemd/system/sandboxd.service: mode 0644,",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it is not shown that\n%s\nbut\n%s", want, &out)
		}
	}
	if made, err := os.ReadDir(host.at("/")); err != nil || len(made) != 1 {
		t.Errorf("a plan that is shown only has made %v, %v", made, err)
	}
}

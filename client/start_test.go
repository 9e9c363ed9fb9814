package client

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStartHint: the service is named where one is installed and a manager runs for this
// user, and nowhere else.
func TestStartHint(t *testing.T) {
	const service, program = "start it with: systemctl --user start sandboxd", "start one with: sandboxd serve"
	for _, tt := range []struct {
		name, unit string // below the home
		manager    bool
		want       string
	}{
		{"nothing", "", false, program},
		{"a manager alone", "", true, program},
		{"a unit alone", ".local/share/systemd/user/sandboxd.service", false, program},
		{"an installed unit", ".local/share/systemd/user/sandboxd.service", true, service},
		{"a unit of the person", ".config/systemd/user/sandboxd.service", true, service},
		{"another unit", ".config/systemd/user/other.service", true, program},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("XDG_RUNTIME_DIR", filepath.Join(home, "run"))
			var files []string
			if tt.manager {
				files = append(files, "run/systemd/private")
			}
			if tt.unit != "" {
				files = append(files, tt.unit)
			}
			for _, name := range files {
				path := filepath.Join(home, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := StartHint(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestUnitsOfTheHome: only a directory that begins with ~ is below the home.
func TestUnitsOfTheHome(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for dir, want := range map[string]string{"~/.config/systemd/user": "/home/me/.config/systemd/user", "/etc/systemd/user": "/etc/systemd/user"} {
		if got, ok := inHome(dir); got != want || !ok {
			t.Errorf("%s is %s, %v, want %s", dir, got, ok, want)
		}
	}
	t.Setenv("HOME", "")
	if got, ok := inHome("~/x"); ok {
		t.Errorf("without a home ~/x is %s", got)
	}
	if got, ok := inHome("/etc/systemd/user"); got != "/etc/systemd/user" || !ok {
		t.Errorf("without a home: %s, %v", got, ok)
	}
}

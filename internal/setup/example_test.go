package setup_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/internal/setup"
)

// allowed is the projects of a person.
type allowed map[string]bool

func (a allowed) In(dir string) (string, error) {
	if a[dir] {
		return dir, nil
	}
	return "", nil
}

func (a allowed) Allow(_ context.Context, dir string) error {
	a[dir] = true
	return nil
}

func (a allowed) Remove(_ context.Context, dir string) error {
	delete(a, dir)
	return nil
}

// A person's plan on a host without systemd: it is shown, carried out and undone.
func Example() {
	home, err := os.MkdirTemp("", "setup-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(home)
	host := setup.Host{Root: home, Program: "/usr/bin/sandboxd", Projects: allowed{}}
	plan, err := setup.Person(host, setup.Options{ConfigHome: "/home/ann/.config", Workspaces: []string{"/srv/a"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, out := context.Background(), os.Stdout
	fmt.Println(plan.Do(ctx, setup.Show{Out: out, DryRun: true}))
	fmt.Println(plan.Do(ctx, setup.Show{Out: io.Discard}))
	fmt.Println(plan.Do(ctx, setup.Show{Out: out})) // what exists is kept
	fmt.Println(plan.Undo(ctx, setup.Show{Out: out}))
	// Output:
	// make  file      /home/ann/.config/systemd/user/sandboxd.service: mode 0644, a unit of systemd
	// make  allowed   /srv/a: sandboxd allow, so that agents may work in it
	// note  systemd does not run for this user, so nothing is started; start the daemon with: /usr/bin/sandboxd serve
	// <nil>
	// <nil>
	// have  file      /home/ann/.config/systemd/user/sandboxd.service: kept
	// have  allowed   /srv/a: allowed
	// note  systemd does not run for this user, so nothing is started; start the daemon with: /usr/bin/sandboxd serve
	// <nil>
	// remove allowed   /srv/a
	// remove file      /home/ann/.config/systemd/user/sandboxd.service
	// remove directory /home/ann/.config/sandboxd
	// undone
	// <nil>
}

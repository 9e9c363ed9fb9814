package setup_test

import (
	"context"
	"fmt"
	"os"

	"github.com/sandboxd/sandboxd/internal/setup"
)

// nothing is the projects of a person who has allowed none.
type nothing struct{}

func (nothing) In(string) (string, error)            { return "", nil }
func (nothing) Allow(context.Context, string) error  { return nil }
func (nothing) Remove(context.Context, string) error { return nil }

// A person's plan on a host without systemd, shown and not carried out.
func Example() {
	home, err := os.MkdirTemp("", "setup-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(home)
	host := setup.Host{Root: home, Program: "/usr/bin/sandboxd", Projects: nothing{}}
	plan, err := setup.Person(host, setup.Options{ConfigHome: "/home/ann/.config", Workspaces: []string{"/srv/a"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Do(context.Background(), setup.Show{Out: os.Stdout, DryRun: true}))
	// Output:
	// make  file      /home/ann/.config/systemd/user/sandboxd.service: mode 0644, a unit of systemd
	// make  allowed   /srv/a: sandboxd allow, so that agents may work in it
	// note  systemd does not run for this user, so nothing is started; start the daemon with: /usr/bin/sandboxd serve
	// <nil>
}

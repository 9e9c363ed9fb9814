package paths_test

import (
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/internal/paths"
)

func Example() {
	env := map[string]string{"SANDBOXD_STATE_DIR": "/srv/state", "SANDBOXD_RUNTIME_DIR": "/run/mine"}
	getenv := func(name string) string { return env[name] } // os.Getenv

	p, err := paths.Resolve(getenv) // what the daemon does
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Database)
	fmt.Println(p.KeyFile, "by", p.From("keyDir"))
	fmt.Println(p.AgentSocket, paths.AgentSocket(getenv) == p.AgentSocket) // its clients find the same

	env["SANDBOXD_KEY_DIR"] = "/srv/state"
	_, err = paths.Resolve(getenv)
	fmt.Println(err)
	// Output:
	// /srv/state/state.db
	// /srv/state-key/audit.key by SANDBOXD_STATE_DIR
	// /run/mine/agent.sock true
	// SANDBOXD_KEY_DIR: "/srv/state" is the state directory; who can change the log there must not sign it
}

package daemon_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/internal/daemon"
)

func Example() {
	root, err := os.MkdirTemp("/var/tmp", "sandboxd-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	work, file := filepath.Join(root, "work"), filepath.Join(root, "sandboxd.yaml")
	if err := os.Mkdir(work, 0o700); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("workspace: {roots: ["+work+"]}\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	for name, value := range map[string]string{
		"SANDBOXD_CONFIG": file, "SANDBOXD_STATE_DIR": root + "/state", "SANDBOXD_RUNTIME_DIR": root + "/run",
	} {
		os.Setenv(name, value)
		defer os.Unsetenv(name)
	}

	ctx, stop := context.WithCancel(context.Background())
	greeted, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- daemon.Serve(ctx, "v1", nil, out)
		out.Close()
	}()
	if _, err := greeted.Read(make([]byte, 1)); err != nil { // it greets when it is ready
		log.Fatal(<-served)
	}
	go io.Copy(io.Discard, greeted)

	var health struct{ Status string }
	if err := client.New(root+"/run/agent.sock").Do(ctx, "GET", "/healthz", nil, &health); err != nil {
		log.Fatal(err)
	}
	fmt.Println(health.Status)
	stop()
	<-served
	// Output:
	// ok
}

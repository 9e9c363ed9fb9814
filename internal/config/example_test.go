package config_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/internal/config"
	"github.com/sandboxd/sandboxd/policy"
)

func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "config")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	dir, file := filepath.Join(root, "src"), filepath.Join(root, "sandboxd.yaml")
	if err := os.Mkdir(dir, 0o700); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("sessions: {mode: plan}\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	env := map[string]string{"HOME": root, "SANDBOXD_STATE_DIR": root + "/state", "SANDBOXD_RUNTIME_DIR": root + "/run"}
	c, err := config.Load(config.Source{File: file, Env: func(name string) string { return env[name] }, Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := policy.New(ctx, c.Policy.Options())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("policy:", engine.Status().Profile)
	for _, v := range c.Explain() {
		if v.Key == "sessions.mode" || v.Key == "sessions.maxMode" {
			fmt.Println(v.Key, string(v.Value), "from", strings.TrimPrefix(v.From, root+"/"))
		}
	}
	// Output:
	// policy: developer
	// sessions.mode "plan" from sandboxd.yaml:1
	// sessions.maxMode "auto" from default
}

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox"
)

// A file tool writes a file through a Box, and cannot read one that the settings deny.
func Example() {
	base, err := os.MkdirTemp("", "example-")
	if err == nil {
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(base)
	ws, ctx := filepath.Join(base, "ws"), context.Background()
	if err := os.Mkdir(ws, 0o755); err != nil {
		fmt.Println(err)
		return
	}

	backend, err := sandbox.NewBackend(sandbox.Options{Runtime: filepath.Join(base, "run"), Roots: func() []string { return []string{ws} }})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	secret := filepath.Join(ws, "secret")
	box, err := backend.Box(ctx, "session", "strict", guard.Settings{
		AllowedWritePaths: []string{ws}, DeniedPaths: []string{secret},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close()

	err = sandbox.WriteFile(ctx, box, guard.PathUse{Path: filepath.Join(ws, "notes")}, []byte("hello"), 0o644)
	fmt.Println("write notes:", err)
	_, err = box.Open(ctx, guard.PathUse{Path: secret, Op: guard.Read}, os.O_RDONLY)
	var denied *guard.Denied
	fmt.Println("read secret: denied:", errors.As(err, &denied))
	// Output:
	// write notes: <nil>
	// read secret: denied: true
}

// The exit of a program says how it ended and what the sandbox stopped.
func ExampleBox() {
	run := func(ctx context.Context, box sandbox.Box) error {
		proc, err := box.Start(ctx, sandbox.Spec{Argv: []string{"ls", "-l"}, Dir: "/work", Stdout: os.Stdout})
		if err != nil {
			return err // for example a *sandbox.MissingError
		}
		exit, err := proc.Wait()
		if err != nil {
			return err // for example a *sandbox.StartError
		}
		fmt.Println(exit.Why(), exit.Code, exit.Denials)
		return nil
	}
	_ = run
}

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/sandbox/bound"
	"golang.org/x/sys/unix"
)

// LookPath finds a program as a shell in the sandbox does.
func (b *box) LookPath(name string) (found string, before []string) {
	for _, e := range b.prepared.view.Env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			p := filepath.Join(dir, name)
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return p, before
			}
			before = append(before, p)
		}
	}
	return "", before
}

// traceable returns words that start the program so that it can be traced from its start. Without
// namespaces the launcher cannot trace a process that shares its memory. The first process of a
// call shares it until its first execve. So a shell executes the program.
func (b *box) traceable(s Spec) []string {
	if !b.cage.noNamespaces {
		return s.Argv
	}
	program := s.Argv[0]
	if !strings.Contains(program, "/") {
		program, _ = b.LookPath(program)
	} else if !filepath.IsAbs(program) {
		program = filepath.Join(s.Dir, program)
	}
	named := func(f Bound) bool { return slices.Contains(f.Names, filepath.Clean(program)) }
	if !slices.ContainsFunc(s.Bound, named) {
		return s.Argv
	}
	return append([]string{"/bin/sh", "-c", `exec "$0" "$@"`}, s.Argv...)
}

// Binds tries it once.
func (c *cage) Binds() error { return c.binds() }

func (c *cage) tryBinding() error {
	if err := c.executeAbsent(); err != nil {
		return fmt.Errorf("this host cannot bind files: %w", err)
	}
	return nil
}

// executeAbsent executes a program that does not exist, with its name bound. That needs everything that binding
// needs.
func (c *cage) executeAbsent() error {
	const name, session = "/.sandboxd-bound", "probe-bound"
	ctx := context.Background()
	s := guard.Settings{AllowedWritePaths: []string{guard.NoPath}}
	box, err := c.Box(ctx, session, ProfileStrict, s)
	if err != nil {
		return err
	}
	defer func() { _ = c.Forget(session) }()
	defer box.Close()
	content, _, err := seal(strings.NewReader("#!/bin/sh\n"))
	if err != nil {
		return err
	}
	defer content.Close()
	proc, err := box.Start(ctx, Spec{
		Argv: []string{name}, Dir: "/", Bound: []Bound{{Names: []string{name}, Content: content}},
	})
	if err != nil {
		return err
	}
	exit, err := proc.Wait()
	if start, ok := errors.AsType[*StartError](err); ok {
		exit.Code, err = start.Code, nil
	}
	switch {
	case err != nil:
		return err
	case exit.Code != 127: // not found
		return fmt.Errorf("a bound program cannot be traced here (status %d)", exit.Code)
	}
	return nil
}

// The most files that one call may have bound, and how many bytes at the beginning of a file name its interpreter.
const (
	MaxBound      = bound.MaxFile
	MaxBoundFiles = bound.MaxFiles
	MaxAbsent     = bound.MaxAbsent
	MaxBoundTotal = bound.MaxTotal
	HeadSize      = bound.HeadSize
)

// Interpreter returns what starts a script, by its first HeadSize bytes. path is "" for a
// file that is no script.
func Interpreter(head []byte) (path, arg string) { return bound.Interpreter(head) }

// Approved is a file that a person has approved.
type Approved struct {
	Path   string   `json:"path"`             // physical
	Names  []string `json:"names"`            // every path by which programs are known to open it; see [Bound]
	Sum    string   `json:"sha256,omitempty"` // of the content
	Bytes  int64    `json:"bytes"`
	Absent bool     `json:"absent,omitempty"` // it did not exist, and does not exist for this call
}

// Bind copies files for [Spec.Bound]. The caller closes them with [CloseBound]. A [ReplacedError] names a file whose
// content is not what was approved. After an error nothing is left to close.
func Bind(ctx context.Context, box Box, files []Approved) (_ []Bound, err error) {
	var out []Bound
	defer func() {
		if err != nil {
			CloseBound(out)
		}
	}()
	for _, a := range files {
		if a.Absent {
			out = append(out, Bound{Names: a.Names})
			continue
		}
		content, sum, err := sealFile(ctx, box, a.Path)
		if err != nil {
			return nil, fmt.Errorf("bind %s: %w", a.Path, err)
		}
		out = append(out, Bound{Names: a.Names, Content: content})
		if sum != a.Sum {
			return out, &ReplacedError{a.Path}
		}
	}
	return out, nil
}

func sealFile(ctx context.Context, box Box, path string) (*os.File, string, error) {
	f, err := box.Open(ctx, guard.PathUse{Raw: path, Path: path, Op: guard.Read}, unix.O_RDONLY)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	return seal(f)
}

// CloseBound closes what Bind returned.
func CloseBound(files []Bound) {
	for _, f := range files {
		if f.Content != nil {
			f.Content.Close()
		}
	}
}

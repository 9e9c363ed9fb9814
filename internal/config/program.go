package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// checkProgram refuses a program that agents could write, and one that does not exist: without it every question to
// it would be denied, or every task for it left undone.
func (c *Config) checkProgram(path string) error {
	if err := c.apart("program", path); err != nil {
		return err
	}
	return notThere(path)
}

// checkArgv is checkProgram for a command that the daemon runs in /. A program that agents cannot write may run a
// script that they can write. So each argument counts as a path, and so does each word in it, as in --file=/a/b and
// in the text of sh -c.
func (c *Config) checkArgv(argv []string) error {
	if err := c.checkProgram(argv[0]); err != nil {
		return err
	}
	for _, arg := range argv[1:] {
		words := strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`=,:;|&<>(){}$", r) })
		for _, path := range append(words, arg) {
			if err := c.apart("argument", filepath.Join("/", path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// plainProgram returns the program that a shell runs for a command, if the first word is an absolute path. Else it
// returns "".
func plainProgram(command string) string {
	program, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	program = strings.Trim(program, `"'`)
	if !filepath.IsAbs(program) || strings.ContainsAny(program, "$`*?[{;&|<>()\\\n\t") {
		return ""
	}
	return program
}

// notThere is the error for a program that cannot be run.
func notThere(program string) error {
	if program == "" {
		return nil
	}
	info, err := os.Stat(program)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("there is no program %q", program)
	case err != nil: // this user may see less than the daemon
		return nil
	case info.IsDir() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("program %q is not executable", program)
	}
	return nil
}

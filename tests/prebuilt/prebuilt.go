// Package prebuilt builds sandboxd, sandboxd-child and sandboxd-agent for tests that run a whole daemon, and
// prepares a state directory for them.
//
//	func TestMain(m *testing.M) {
//		err := prebuilt.Programs(dir) // once: the programs, and the tables of an empty state
//	}
//
//	err := prebuilt.State(dir, state) // in a test: a state directory with a copy of these tables
//
// Programs is for tests two directories below the root of the repository. The caller makes dir, an
// absolute path that is empty, and removes it. If SANDBOXD_TEST_PROGRAMS names a directory, the programs come
// from there. Another program goes into the list in Programs, and into make test.
//
// State gives a daemon its tables, as sandboxd store migrate leaves them, and nothing else. Otherwise its first
// start makes about thirty tables, which takes a fifth of its processor time.
package prebuilt

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs makes sandboxd, sandboxd-child and sandboxd-agent in dir, for tests two directories below the root.
// make test builds them once for all tests, and says where they are in SANDBOXD_TEST_PROGRAMS.
func Programs(dir string) error {
	if made := os.Getenv("SANDBOXD_TEST_PROGRAMS"); made != "" {
		if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
			return fmt.Errorf("copy the programs: %w", err)
		}
		return makeTables(dir)
	}
	for _, args := range [][]string{
		{"build", "-C", "../..", "-trimpath", "-ldflags=-s -w", "-o", dir, "./cmd/sandboxd", "./cmd/sandboxd-child"},
		{"build", "-C", "../../agent", "-trimpath", "-ldflags=-s -w", "-o", dir, "./cmd/sandboxd-agent"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the programs: %w\n%s", err, out)
		}
	}
	return makeTables(dir)
}

const tables = "tables/state.db"

func makeTables(dir string) error {
	file := filepath.Join(dir, tables)
	err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600))
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(dir, "sandboxd"), "store", "migrate", filepath.Dir(file))
	cmd.Env = append(os.Environ(), "HOME="+dir, "SANDBOXD_STATE_DIR="+filepath.Dir(file), "SANDBOXD_CONFIG=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the tables: %w\n%s", err, out)
	}
	return nil
}

// State makes state the state directory of a daemon that has tables and has never served, with the programs in dir.
func State(dir, state string) error {
	b, err := os.ReadFile(filepath.Join(dir, tables))
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(state, 0o700), os.WriteFile(filepath.Join(state, "state.db"), b, 0o600))
}

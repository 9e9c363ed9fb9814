package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/guard"
)

// OpenSiblings makes those that are missing, with the rights of the box, and looks that each is the directory that was
// judged: where a link lies by now, what the box lets be written is another place, and nothing may run.
func OpenSiblings(ctx context.Context, b Box, siblings []guard.Sibling) error {
	for _, s := range siblings {
		in := filepath.Join(s.Path, TempName()) // to write a file, its directory is made
		dir, err := b.Open(ctx, guard.PathUse{Path: in, Op: guard.Write}, os.O_WRONLY)
		if err != nil {
			return fmt.Errorf("open %s beside the workspace: %w", s.Path, err)
		}
		dir.Close()
	}
	return nil
}

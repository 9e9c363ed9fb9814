package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/guard"
)

// OpenSiblings makes the directories that are missing, with the rights of the box, and checks that each is the
// directory that was judged. If a link lies there now, the box would let something else be written than was judged,
// and nothing may run.
func OpenSiblings(ctx context.Context, b Box, siblings []guard.Sibling) error {
	for _, s := range siblings {
		in := filepath.Join(s.Path, TempName()) // a file needs its directory, so this makes it
		dir, err := b.Open(ctx, guard.PathUse{Path: in, Op: guard.Write}, os.O_WRONLY)
		if err != nil {
			return fmt.Errorf("open %s beside the workspace: %w", s.Path, err)
		}
		dir.Close()
	}
	return nil
}

package hooks

import (
	"context"
	"fmt"
)

// Program runs a program of the operator's outside the sandbox, as hooks are run
// but without a shell: the text goes in by stdin, and stdout comes back. It ends
// with ctx, and with it all that it started.
func (r *Registry) Program(ctx context.Context, argv []string, stdin []byte) ([]byte, error) {
	e, err := r.execute(ctx, hook{}, Input{}, argv, stdin)
	if err != nil {
		return nil, err
	}
	if e.err != nil {
		return nil, fmt.Errorf("%w: %s", e.err, textOf(e.stderr))
	}
	return e.stdout, nil
}

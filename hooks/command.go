package hooks

import (
	"context"
	"fmt"
)

// command runs a shell hook (H-09). The input goes in by stdin, never into the
// text (H-13).
func (r *Registry) command(ctx context.Context, h hook, in Input) (*Output, error) {
	stdin, err := in.encode()
	if err != nil {
		return nil, fmt.Errorf("encode the input: %w", err)
	}
	e, err := r.execute(ctx, h, in, []string{"/bin/bash", "-c", h.Command}, stdin)
	if err != nil {
		return nil, err
	}
	return read(e)
}

// read turns the end of a command into an output. Exit 2 blocks whatever stdout
// says; any other failure is an error.
func read(e ended) (*Output, error) {
	text := textOf(e.stderr)
	if e.code == 2 {
		return &Output{Block: true, Reason: text}, nil
	}
	switch { // as bash ends; a program of the hook's may end so too
	case e.code == 127:
		return nil, fmt.Errorf("%w: %s", told("exit status 127: a program was not found"), text)
	case e.code == 126:
		return nil, fmt.Errorf("%w: %s", told("exit status 126: a program could not be started"), text)
	case e.err != nil:
		return nil, fmt.Errorf("%w: %s", e.err, text)
	}
	return parseOutput(e.stdout)
}

package hooks

import "context"

// Try runs the hooks of an event as Fire does, and nothing comes of it: what they
// say of permissions is not kept, and nobody is notified or told of the runs. The
// programs themselves run.
func (r *Registry) Try(ctx context.Context, event Event, in Input) (Answer, error) {
	t := &Registry{
		opts:    Options{Child: r.opts.Child, Env: r.opts.Env, Writable: r.opts.Writable, Box: r.opts.Box},
		running: r.running,
		grants:  &permissions{all: map[string]said{}},
		events:  map[Event][]hook{event: r.of(event)},
	}
	return t.Fire(ctx, event, in)
}

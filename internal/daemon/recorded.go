package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/store"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/callback"
)

// replayDeadline bounds one evaluation of a recorded call. It is long, because nobody waits for it, and an
// evaluation that is cut short on a busy machine counts as a deny.
const replayDeadline = time.Second

// ReplayOptions returns the policies of the configuration for judging recorded calls. It leaves out programs of the
// operator: they are not asked again.
func (s *Site) ReplayOptions() policy.Options {
	o := s.PolicyOptions()
	o.Deadline = replayDeadline
	if u := s.Config.Policy.CanUseTool; len(u.Command) > 0 || u.Webhook != "" {
		o.CanUseTool = func(context.Context, string, json.RawMessage, callback.Context) (*callback.Opinion, error) {
			return nil, errors.New("a recorded call is not asked about again")
		}
	}
	return o
}

// Recorded opens the decisions that the daemon of this configuration keeps. The daemon may be running. The caller
// closes the database.
func (s *Site) Recorded(ctx context.Context) (policy.Records, error) {
	if s.Config.Policy.KeepDecisions == 0 {
		return policy.Records{}, &tool.Error{
			Code: "nothing_recorded", Msg: "no calls are recorded: policy.keepDecisions is 0",
			Hint: "set policy.keepDecisions",
		}
	}
	if _, err := os.Stat(s.Paths.Database); err != nil { // opening would make one
		return policy.Records{}, &tool.Error{
			Code: "nothing_recorded", Msg: fmt.Sprintf("no calls are recorded in %q: %v", s.Paths.StateDir, err),
			Hint: "run it as the user of the daemon, with the same configuration and SANDBOXD_STATE_DIR",
		}
	}
	db, err := store.Open(ctx, store.Options{Path: s.Paths.Database})
	if err != nil {
		return policy.Records{}, err
	}
	r := policy.Records{DB: db}
	if _, err := r.Start(ctx); err != nil {
		if strings.Contains(err.Error(), "no such table") {
			err = &tool.Error{
				Code: "nothing_recorded", Msg: "the recorded calls were written by an older version of sandboxd",
				Hint: "start the daemon of this version; calls from then on can be judged again",
			}
		}
		return policy.Records{}, errors.Join(err, db.Close())
	}
	return r, nil
}

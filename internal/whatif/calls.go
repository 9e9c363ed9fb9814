package whatif

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
)

// ErrNoCall says that neither a command line nor standard input has a call.
var ErrNoCall = errors.New(`no call was given: name one with -c 'git push', or write {"tool", "args"} to stdin`)

// Calls are the calls that somebody describes: one command line, or JSON values.
type Calls struct {
	Command string    // "": they are read from standard input
	Recent  string    // what was counted before a call that does not say it, as the JSON of input.recent
	Mode    tool.Mode // of a call that names none
}

// Each gives every call to judge, in order. It ends with the first error.
func (c Calls) Each(stdin io.Reader, judge func(policy.Example) error) error {
	if c.Command != "" {
		return c.one(c.Command, judge)
	}
	dec := json.NewDecoder(stdin)
	for n := 0; ; n++ {
		var raw any
		err := dec.Decode(&raw)
		if n > 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return ErrNoCall
		}
		if err != nil {
			return fmt.Errorf("read a call from stdin: %w", err)
		}
		if err := c.one(raw, judge); err != nil {
			return err
		}
	}
}

// one reads a call, and adds what it does not say itself.
func (c Calls) one(raw any, judge func(policy.Example) error) error {
	call, ok := raw.(map[string]any)
	if !ok {
		call = map[string]any{"command": raw}
	}
	if c.Recent != "" && call["recent"] == nil {
		var counted any
		if err := json.Unmarshal([]byte(c.Recent), &counted); err != nil {
			return fmt.Errorf("--recent: %w", err)
		}
		call["recent"] = counted
	}
	x, err := policy.NewExample(call)
	if err != nil {
		return err
	}
	x.Mode = cmp.Or(x.Mode, c.Mode)
	return judge(x)
}

// Times are how long decisions took.
type Times struct{ Median, P99, Slowest time.Duration }

// Measure judges a call n times. n is at least 1.
func Measure(n int, judge func() error) (Times, error) {
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if err := judge(); err != nil {
			return Times{}, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return Times{Median: took[n/2], P99: took[n*99/100], Slowest: took[n-1]}, nil
}

package undo

import (
	"context"
	"path/filepath"

	"github.com/sandboxd/sandboxd/sandbox"
)

// leastAhead is the smallest number of lines for which one write together saves anything.
const leastAhead = 4

// tellAhead writes the first of these lines to the journal before their changes begin, all in one write: those that
// put something back where the call left nothing. A write for each costs more than the file. It returns how many
// lines the next look is after. The journal has lines in the order in which they are done, so that the opposite
// order undoes them: the first line of another kind ends it. What is not done is dropped at the end.
func (r restorer) tellAhead(ctx context.Context, lines []int) (int, error) {
	rec := recorderOf(ctx)
	if rec == nil {
		return len(lines), nil
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.ahead = nil
	ahead := map[string]*line{}
	var all []*line
	for _, i := range lines {
		c := r.of.Changes[i]
		if c.After.Type != nothing || c.Before.Type == unreadable || ahead[c.Path] != nil {
			break
		}
		l := &line{drop: true, told: true, change: change{
			Path: c.Path, Temp: filepath.Join(filepath.Dir(c.Path), sandbox.TempName()), State: kept,
			After: opened(c.Before),
		}}
		ahead[c.Path] = l
		all = append(all, l)
	}
	if len(all) < leastAhead {
		return max(len(all), 1), nil
	}
	rec.ahead = ahead
	return len(all), rec.add(ctx, all...)
}

// takeAhead returns the line of a change that tellAhead has written, else nil. The caller holds mu.
func (r *recorder) takeAhead(c *sandbox.Coming) *line {
	if len(c.Dirs) > 0 { // the lines of directories come first
		r.ahead = nil
	}
	l := r.ahead[c.Path]
	if l != nil {
		delete(r.ahead, c.Path)
		c.Temp = l.Temp
	}
	return l
}

package pipeline

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// byModel says that the model wrote each argument.
type byModel struct{ *world }

func (byModel) Resolve(_ context.Context, _ string, args json.RawMessage) (json.RawMessage, tool.Origins, error) {
	return args, tool.Origins{Args: map[string][]tool.Origin{"text": {tool.OriginModel}}}, nil
}

// A call that was written down earlier has the authors of then beside those of now, and leaves the session where it is.
func TestT51_AScheduledCall(t *testing.T) {
	w := newWorld(tool.Spec{})
	var judged []tool.Origin
	w.decide = func(c *tool.Call) tool.Decision {
		judged = c.Facts.Origins.Args["text"]
		return tool.Decision{Verdict: tool.Allow}
	}
	w.echo.leaves.Dir = "/w/sub"
	p := w.pipeline()
	p.Vars = byModel{w}
	r := w.request(`{"text":"x"}`)
	r.Scheduled = &tool.Scheduled{By: []tool.Origin{tool.OriginModel, tool.OriginWeb}}
	if got := p.Do(t.Context(), r); got.Status != tool.StatusSuccess || w.session.Dir != "/w" {
		t.Errorf("got %+v in %s", got, w.session.Dir)
	}
	if !slices.Equal(judged, []tool.Origin{tool.OriginModel, tool.OriginWeb}) {
		t.Errorf("judged as of %v", judged)
	}
	if got := w.echo.in.Origins.Args["text"]; !slices.Equal(got, judged) { // what it keeps has these authors
		t.Errorf("its tool is told of %v", got)
	}
	r.Scheduled = nil
	if got := p.Do(t.Context(), r); got.Status != tool.StatusSuccess || w.session.Dir != "/w/sub" || len(judged) != 1 {
		t.Errorf("by its caller: %+v in %s, of %v", got, w.session.Dir, judged)
	}
}

// outlasting is a tool whose calls may go on when they have been answered.
type outlasting struct {
	*echo
	lasts bool
}

func (o outlasting) Lasts(tool.In) (time.Duration, bool) { return 0, o.lasts }

// Where nobody keeps jobs, a call that would become one does not run.
func TestNobodyKeepsAJob(t *testing.T) {
	for lasts, want := range map[bool]string{true: "background_unavailable", false: ""} {
		w := newWorld(tool.Spec{})
		p := w.pipeline()
		r := catalog.NewRegistry(catalog.Group{Name: "g", Tools: []tool.Tool{outlasting{w.echo, lasts}}})
		r.SetDefaults(catalog.Defaults{AllGroups: true})
		p.Tools = r
		got := p.Do(t.Context(), w.request(`{"text":"x"}`))
		code := ""
		if got.Error != nil {
			code = got.Error.Code
		}
		if code != want || w.ran() == lasts {
			t.Errorf("lasting %v: got %s %+v, ran %v", lasts, got.Status, got.Error, w.ran())
		}
	}
}

package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/pipeline"
	"github.com/sandboxd/sandboxd/policy"
)

func (s *Server) policyRoutes() []route.Route {
	return []route.Route{
		{
			Pattern: "POST /policies/explain", Role: tool.RoleOperator, Handle: s.explain,
			Spec: route.Spec{
				ID:      "explain",
				Summary: "Why a call would be judged so, and what would change it", In: explainRequest{},
				Out: policy.Explanation{},
			},
		},
	}
}

// explainRequest is a call to explain.
type explainRequest struct {
	Session string          `json:"session_id"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args,omitempty"`
	Nearest bool            `json:"nearest,omitempty"`
}

// explain judges a call as it would be judged now.
func (s *Server) explain(r *http.Request) (any, error) {
	var in explainRequest
	if err := route.Read(r, &in); err != nil {
		return nil, err
	}
	req, err := s.requestIn(r, in.Session, oneCall{Tool: in.Tool, Args: in.Args})
	if err != nil {
		return nil, err
	}
	return Explain(r.Context(), s.Pipeline, req, in.Nearest)
}

// Explain judges a call on a request path, and says why it is judged so. With nearest it searches for the smallest
// change after which the call would be allowed. Of everything that the call would start, only the hooks before it
// run.
func Explain(ctx context.Context, p *pipeline.Pipeline, req tool.Request, nearest bool) (policy.Explanation, error) {
	req.Hypothetical = true
	judged, seen := policy.WithEvidence(ctx)
	c := p.Decide(judged, req)
	x, err := seen.Explain(c.Decision)
	if err != nil {
		return x, err
	}
	x.Decision = decisionOf(c)
	if nearest && x.Decision.Verdict != tool.Allow && c.Tool != nil {
		x.Nearest = policy.Nearest(c, func(change policy.Change) bool {
			d, err := p.Rejudge(ctx, c, change.Args, change.Mode)
			return err == nil && d.Verdict == tool.Allow && d.Args == nil
		})
	}
	return x, ctx.Err()
}

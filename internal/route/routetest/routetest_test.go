package routetest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/route/routetest"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// coded is an error with a code that is no tool.Error, like those of package store.
type coded struct{}

func (coded) Error() string { return "the disk is full" }
func (coded) Code() string  { return "store_unavailable" }
func (coded) Hint() string  { return "free some space" }

// An error is told as the server tells it.
func TestErrorsHaveTheirCodes(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&tool.Error{Code: "no_note", Msg: "there is none"}, "no_note: there is none"},
		{fmt.Errorf("save: %w", coded{}), "store_unavailable: save: the disk is full"},
		{fmt.Errorf("anything"), "error: anything"},
	} {
		routes := []route.Route{{
			Pattern: "GET /x", Handle: func(*http.Request) (any, error) { return nil, tt.err },
		}}
		if got := routetest.Call(t, routes, tool.RoleAgent, "GET /x", ""); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

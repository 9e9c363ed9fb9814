package api

import (
	"bytes"
	"net/http"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// Profiles of the daemon itself, for `go tool pprof`. They name functions and count bytes. Nothing that a caller has
// sent is in them.

// profiles are those that the runtime always keeps. block and mutex are missing, because the runtime counts those
// only if told to, and their profiles would be empty.
var profiles = []string{"allocs", "goroutine", "heap", "threadcreate"}

// processor is the profile of processor time. It is made while the client waits.
const processor = "profile"

const (
	profileTime = 10 * time.Second
	profileMost = 5 * time.Minute
)

func (s *Server) profileRoutes() []route.Route {
	return []route.Route{
		{
			Pattern: "GET /debug/pprof", Role: tool.RoleOperator, Handle: s.profiles,
			Spec: route.Spec{ID: "listProfiles", Summary: "The profiles of the daemon itself", Out: []profile{}},
		},
		{
			Pattern: "GET /debug/pprof/{name}", Role: tool.RoleOperator, Handle: s.profile,
			Spec: route.Spec{
				ID: "getProfile", Summary: "A profile of the daemon itself, for go tool pprof", Out: route.Raw{},
				Query: []route.Param{{Name: "seconds", Type: "integer"}}, Errors: []int{404, 409},
			},
		},
	}
}

// profile describes a profile that can be asked for.
type profile struct {
	Name  string `json:"name"`
	Count int    `json:"count"` // entries that it has now
}

func (s *Server) profiles(*http.Request) (any, error) {
	all := []profile{{Name: processor}}
	for _, name := range profiles {
		all = append(all, profile{name, pprof.Lookup(name).Count()})
	}
	return all, nil
}

func (s *Server) profile(r *http.Request) (any, error) {
	var out bytes.Buffer
	name, seconds := r.PathValue("name"), r.FormValue("seconds")
	switch {
	case name != processor && !slices.Contains(profiles, name):
		e := route.Missing("not_found", "there is no profile "+strconv.Quote(name))
		e.Said.Hint = "there are " + processor + ", " + strings.Join(profiles, ", ")
		return nil, e
	case name != processor && seconds != "":
		return nil, route.BadRequest("seconds: only " + processor + " is made over a time")
	case name != processor:
		err := pprof.Lookup(name).WriteTo(&out, 0)
		return binary(out.Bytes()), err
	}
	lasts := profileTime
	if n, err := strconv.Atoi(seconds); err == nil { // a number, or missing
		lasts = time.Duration(n) * time.Second
	}
	if lasts < time.Second || lasts > profileMost {
		return nil, route.BadRequest("seconds: want 1 to " + strconv.Itoa(int(profileMost.Seconds())))
	}
	if err := pprof.StartCPUProfile(&out); err != nil {
		return nil, route.Error{Status: http.StatusConflict, Said: &tool.Error{
			Code: "profile_runs", Msg: "a profile of processor time is being made", Hint: "try again when it has ended",
		}}
	}
	return route.Raw{Endless: true, Serve: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(lasts):
		case <-r.Context().Done(): // the client has left, or the daemon stops
		}
		pprof.StopCPUProfile() // writes it
		binary(out.Bytes()).Serve.ServeHTTP(w, r)
	})}, nil
}

// octets is the media type of bytes that are no text.
const octets = "application/octet-stream"

// binary returns an answer that is not JSON.
func binary(out []byte) route.Raw {
	return route.Raw{Serve: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", octets)
		_, _ = w.Write(out) // an error: the client has left
	})}
}

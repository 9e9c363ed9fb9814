package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestProfilesOfTheDaemon(t *testing.T) {
	w := newWorld(t)
	said := func(path string) string {
		a := w.do(tool.RoleOperator, "GET", "/debug/pprof"+path, "")
		return fmt.Sprint(a.status, " ", a.Error.Code)
	}
	if a := w.do(tool.RoleOperator, "GET", "/debug/pprof", ""); a.status != http.StatusOK ||
		!strings.Contains(string(a.Data), `{"name":"profile","count":0},{"name":"allocs",`) {
		t.Errorf("the list: %d %s", a.status, a.Data)
	}
	for path, want := range map[string]string{
		"none": "404 not_found", "mutex": "404 not_found", "cmdline": "404 not_found",
		"heap?seconds=1": "400 validation_error", "profile?seconds=0": "400 validation_error",
		"profile?seconds=301": "400 validation_error", "profile?seconds=x": "400 validation_error",
	} {
		if got := said("/" + path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := said("/profile"); got != "409 profile_runs" {
		t.Errorf("a second one: got %s", got)
	}
	pprof.StopCPUProfile()
	for _, path := range []string{"heap", "allocs", "goroutine", "threadcreate", "profile?seconds=1"} {
		res := w.send(tool.RoleOperator, "GET", "/debug/pprof/"+path, nil)
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if must(t, err); !bytes.HasPrefix(got, []byte("\x1f\x8b")) { // gzip, as pprof reads it
			t.Errorf("%s: got %.40q", path, got)
		}
	}
}

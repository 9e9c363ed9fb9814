package hooks

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHTTPHooks(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/block":
			var in Input
			if err := json.NewDecoder(req.Body).Decode(&in); err != nil || in.ToolName != "Bash" {
				t.Errorf("got %+v, %v", in, err)
			}
			fmt.Fprint(w, `{"block":true,"reason":"by http"}`)
		case "/marked":
			fmt.Fprint(w, "\ufeff", `{"block":true,"reason":"by http"}`)
		case "/page":
			fmt.Fprint(w, "<html>please log in</html>")
		case "/list":
			fmt.Fprint(w, `[{"block":true}]`)
		case "/null":
			fmt.Fprint(w, "null")
		case "/error":
			w.WriteHeader(500)
		case "/redirect":
			http.Redirect(w, req, "/block", http.StatusFound)
		case "/big":
			_, _ = w.Write(make([]byte, 2<<20))
		case "/slow":
			// The server sees that the client is gone only once the body is read.
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		}
	}))
	defer srv.Close()
	for _, tt := range []struct{ path, reason string }{
		{"/block", "by http"},
		{"/marked", "by http"},
		{"/page", `hook "preToolUse#1" failed, and blocks when it fails`},
		{"/list", `hook "preToolUse#1" failed, and blocks when it fails`},
		{"/null", `hook "preToolUse#1" failed, and blocks when it fails`},
		{"/error", `hook "preToolUse#1" failed, and blocks when it fails`},
		{"/redirect", `hook "preToolUse#1" failed, and blocks when it fails`},
		{"/big", `hook "preToolUse#1" failed, and blocks when it fails`},
		{"/slow", `hook "preToolUse#1" failed (timed out after 1s), and blocks when it fails`},
		{"/silent", ""},
	} {
		d := Definition{URL: srv.URL + tt.path, TimeoutMS: 120_000}
		if tt.path == "/slow" { // the one that never answers
			d.TimeoutMS = 1000
		}
		a := fire(t, d, Input{ToolName: "Bash"})
		if a.Advice.Block != (tt.reason != "") || a.Advice.Reason != tt.reason {
			t.Errorf("%s: got %+v, %q", tt.path, a.Advice, a.Runs[0].Err)
		}
	}
}

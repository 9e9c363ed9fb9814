package metrics_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/metrics"
)

func Example() {
	m := metrics.New("v1")
	m.SetTools([]string{"Bash", "Read"})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())

	for _, name := range []string{"Bash", "Bash", "made up by a model"} {
		m.Done(&tool.Call{
			Request: tool.Request{Tool: name},
			Target:  tool.Target{Spec: tool.Spec{Name: name}},
			Result:  tool.Result{Status: tool.StatusSuccess},
		})
	}

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "sandboxd_requests_total") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// sandboxd_requests_total{outcome="SUCCESS",tool="Bash"} 2
	// sandboxd_requests_total{outcome="SUCCESS",tool="other"} 1
}

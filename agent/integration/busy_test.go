package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// refusing stands in front of a daemon. The first of some requests it answers as a
// daemon without room does; the others it passes on.
type refusing struct {
	mu      sync.Mutex
	refused int // guarded by mu
	most    int
	of      string // method and end of a path
	next    http.Handler
}

func (f *refusing) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

func (f *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.Method + " " + r.URL.Path[strings.LastIndex(r.URL.Path, "/"):]
	f.mu.Lock()
	refuse := name == f.of && f.refused < f.most
	if refuse {
		f.refused++
	}
	f.mu.Unlock()
	if !refuse {
		f.next.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, `{"error":{"code":"agents_busy","message":"the daemon has no room","hint":"wait"}}`)
}

// behind puts a refusing in front of the daemon, for the agents of the test.
func (d *Daemon) behind(t *testing.T, of string, most int) *refusing {
	t.Helper()
	dir, err := os.MkdirTemp(d.Work, "p")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "sandboxd"})
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(d.Work, "run/a.sock"))
	}}
	f := &refusing{most: most, of: of, next: proxy}
	s := &http.Server{Handler: f}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
	d.Env = append(d.Env, "SANDBOXD_SOCKET="+filepath.Join(dir, "s"))
	return f
}

// A daemon that answers 503 took nothing: it is asked again, three times.
func TestTheDaemonAnswers503(t *testing.T) {
	for _, of := range []string{"POST /calls", "GET /tools", "POST /messages", "PUT /messages", "POST /hook-events", "GET /prompt"} {
		for most, subtype := range map[int]string{3: "success", 1000: ""} {
			t.Run(fmt.Sprint(of, most), func(t *testing.T) {
				d := NewDaemon(t, bin, "")
				f := d.behind(t, of, most)
				m := NewModel(t, Step{Text: "I call", Calls: []Call{bash("a", "echo once >> ran")}}, Step{Text: "done"})
				r := d.Command(m, withQuick("go")...)
				r.Finish()
				end := r.Result(t)
				ran, _ := os.ReadFile(filepath.Join(d.Workspace, "ran"))
				if subtype == "success" {
					if end["subtype"] != subtype || string(ran) != "once\n" || fmt.Sprint(end["errors"]) != "[]" || f.times() != 3 {
						t.Errorf("%v after %d refusals, ran %q\n%s", end, f.times(), ran, r.Out)
					}
					d.saved(t, end, 4)
					return
				}
				// It stays so: nothing hangs, nothing is hidden.
				switch of {
				case "POST /calls":
					if !strings.Contains(m.Asked()[1].Raw, "The call did not run") || len(ran) > 0 || f.times() != 4 {
						t.Errorf("after %d refusals %q, %s", f.times(), ran, m.Asked()[1].Raw)
					}
				case "POST /messages": // then all messages are saved anew
					if fmt.Sprint(end["errors"]) != "[]" {
						t.Errorf("%v", end)
					}
					d.saved(t, end, 4)
				case "PUT /messages":
					if !strings.Contains(fmt.Sprint(end["errors"]), "the conversation was not saved: the daemon has no room") {
						t.Errorf("%v", end)
					}
				default:
					if end["subtype"] != "errorDuringExecution" || len(m.Asked()) > 0 || !strings.Contains(fmt.Sprint(end["errors"]), "no room") {
						t.Errorf("%d requests, %v", len(m.Asked()), end)
					}
				}
			})
		}
	}
	// So is one that has no room for another session.
	d := NewDaemon(t, bin, "")
	d.behind(t, "POST /sessions", 1000)
	m := NewModel(t)
	refuses(t, d, d.Command(m, withQuick("go")...), 1, "the daemon has no room")
}

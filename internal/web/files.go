package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/visible"
)

//go:embed page
var embedded embed.FS

// files holds the templates and static files of the page, which are read once.
type files struct {
	pages  map[string]*template.Template
	static map[string]file
}

type file struct {
	kind          string
	plain, zipped []byte
}

var kinds = map[string]string{
	"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
	"share.js": "text/javascript; charset=utf-8", "live.js": "text/javascript; charset=utf-8",
	"viewer.js": "text/javascript; charset=utf-8",
}

// functions are the functions that templates may call. Text of others must go through "text", line by line.
var functions = template.FuncMap{
	"text":  func(v any) string { return visible.Text(fmt.Sprint(v)) },
	"lines": func(s string) []string { return strings.Split(s, "\n") },
	"words": review.Words,
	"clock": func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") },
	// The argument is a query that this package has encoded.
	"query":  func(q string) template.URL { return template.URL(q) },
	"joined": and,
	"clip":   func(s string) string { return review.Clip(s, maxShown) },
	"bytes":  size,
	"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}

// maxShown bounds the bytes that the page shows of a value.
const maxShown = 64 << 10

// size returns a number of bytes with a unit.
func size(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}

func readFiles() (files, error) {
	f := files{pages: map[string]*template.Template{}, static: map[string]file{}}
	layout, err := template.New("layout.html").Funcs(functions).ParseFS(embedded, "page/layout.html", "page/parts.html")
	if err != nil {
		return f, fmt.Errorf("read the page: %w", err)
	}
	names := []string{
		"inbox", "sessions", "session", "decision", "variables", "policies", "network", "record", "health", "message",
		"shares", "shared",
	}
	for _, name := range names {
		one, err := layout.Clone()
		if err == nil {
			_, err = one.ParseFS(embedded, "page/"+name+".html")
		}
		if err != nil {
			return f, fmt.Errorf("read the page: %w", err)
		}
		f.pages[name] = one
	}
	for name, kind := range kinds {
		plain, err := embedded.ReadFile("page/" + name)
		if err != nil {
			return f, fmt.Errorf("read the page: %w", err)
		}
		var zipped bytes.Buffer
		z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is valid
		if _, err = z.Write(plain); err == nil {
			err = z.Close()
		}
		if err != nil {
			return f, err
		}
		f.static[name] = file{kind, plain, zipped.Bytes()}
	}
	return f, nil
}

// static serves the style sheet and the scripts.
func (s *site) static(w http.ResponseWriter, r *http.Request) {
	f, ok := s.files.static[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Vary", "Accept-Encoding")
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	_, _ = w.Write(body) // a client that has left needs no answer
}

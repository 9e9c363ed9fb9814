package daemon

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/http.md is written by hand: every route has its row there, with its role, and
// every row is a route.
func TestEveryRouteHasARowInTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := documented(string(text))
	served := served(t)
	for _, r := range slices.Sorted(maps.Keys(served)) {
		switch role, ok := rows[r]; {
		case !ok:
			t.Errorf("%s has no row in docs/http.md", r)
		case role != served[r]:
			t.Errorf("%s is for role %q in docs/http.md, want %q", r, role, served[r])
		}
	}
	for _, r := range slices.Sorted(maps.Keys(rows)) {
		if _, ok := served[r]; !ok {
			t.Errorf("docs/http.md has a row for %s, which is no route", r)
		}
	}
}

// served is the role of each route, by method and path.
func served(t *testing.T) map[string]string {
	t.Helper()
	text, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Security []map[string]any
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			role := "operator"
			for _, scheme := range op.Security {
				if _, ok := scheme["agent"]; ok {
					role = "agent"
				}
			}
			all[strings.ToUpper(method)+" "+path] = role
		}
	}
	if len(all) < 30 {
		t.Fatalf("only %d routes were found", len(all))
	}
	return all
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// documented is the role of each route in the table of the page. A row may have
// several routes; a method alone has the path of the next, and … stands for all
// but the last two parts of the path before.
func documented(page string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
		if !strings.HasPrefix(line, "| `") || len(cells) != 6 {
			continue
		}
		first, role := cells[1], strings.TrimSpace(cells[2])
		var methods []string
		method, path := "", ""
		for _, span := range codeSpan.FindAllStringSubmatch(first, -1) {
			m, p, found := strings.Cut(span[1], " ")
			switch {
			case strings.HasPrefix(m, "…"):
				parts := strings.Split(path, "/")
				path = strings.Join(parts[:len(parts)-2], "/") + strings.TrimPrefix(m, "…")
				all[method+" "+path] = role
				continue
			case !found:
				methods = append(methods, m)
				continue
			}
			method, path = m, p
			for _, m := range append(methods, method) {
				all[m+" "+path] = role
			}
			methods = nil
		}
	}
	return all
}

func TestRowsOfThePageAreRead(t *testing.T) {
	got := documented("# HTTP\n| route | role | body | answer |\n| --- | --- | --- | --- |\n" +
		"| `GET /a` `GET /b` | agent | | |\n" +
		"| `GET` `PUT /c/{id}` | operator | `POST /no` | |\n" +
		"| `PUT /d/{id}/e/{name}` `…/f/{name}` | operator | | |\n")
	want := map[string]string{
		"GET /a": "agent", "GET /b": "agent", "GET /c/{id}": "operator", "PUT /c/{id}": "operator",
		"PUT /d/{id}/e/{name}": "operator", "PUT /d/{id}/f/{name}": "operator",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

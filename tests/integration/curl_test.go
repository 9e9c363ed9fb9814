package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// keepingCurl is curl as the scripts find it: the real one, and what it printed is kept with its
// arguments, so that every answer is held against docs/openapi.json when the scripts have ended. Scripts
// may look at neither status nor stderr, and each process that read the document would take longer
// than the call. A stream (-N) is not kept.
const keepingCurl = `#!/bin/sh
for arg; do case $arg in -*N*) exec CURL "$@" ;; esac; done
kept=$(mktemp ANSWERS/XXXXXXXXXX) || exit 126
CURL "$@" >"$kept"
status=$?
cat "$kept"
[ $status -ne 0 ] || printf '%s\0' "$@" >"$kept.args" || exit 126
exit $status
`

// keepAnswers makes that curl below dir.
func keepAnswers(dir string) error {
	real, err := exec.LookPath("curl")
	if errors.Is(err, exec.ErrNotFound) {
		return nil // the tests that want it say so
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(answers(), 0o777); err != nil {
		return err
	}
	if err := os.Chmod(answers(), 0o777); err != nil { // scripts are run as other users too
		return err
	}
	text := strings.NewReplacer("CURL", real, "ANSWERS", answers()).Replace(keepingCurl)
	return os.WriteFile(filepath.Join(dir, "curl"), []byte(text), 0o755)
}

func answers() string { return filepath.Join(bin, "answers") }

// checkAnswers reports the answers of the daemon that docs/openapi.json does not allow.
func checkAnswers(t *testing.T) {
	text, err := os.ReadFile("../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(answers(), "*.args"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("no answers are kept: %v", err)
	}
	for _, name := range kept {
		args, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		body, err := os.ReadFile(strings.TrimSuffix(name, ".args"))
		if err != nil {
			t.Fatal(err)
		}
		list := strings.Split(string(args), "\x00")
		if wrong := doc.against(list, body); wrong != nil {
			t.Errorf("an answer that the OpenAPI document does not allow: curl %q: %v\n%s", list, wrong, body)
		}
	}
}

// document is what is read of docs/openapi.json.
type document struct {
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas   map[string]any     `json:"schemas"`
		Responses map[string]content `json:"responses"`
	} `json:"components"`
}

type content struct {
	Content map[string]struct {
		Schema map[string]any `json:"schema"`
	} `json:"content"`
}

// against says what is wrong with the answer to a command line of curl.
func (d *document) against(args []string, body []byte) error {
	method, path := "GET", ""
	for i, a := range args {
		switch {
		case a == "-X" && i+1 < len(args):
			method = args[i+1]
		case (a == "-d" || a == "--data-binary") && method == "GET":
			method = "POST"
		case strings.HasPrefix(a, "http://x/"):
			u, err := url.Parse(a)
			if err != nil {
				return nil // curl has said so
			}
			path = strings.TrimPrefix(u.Path, "/v1")
		}
	}
	var answer map[string]any
	if path == "" || json.Unmarshal(body, &answer) != nil {
		return nil // metrics, or no whole answer
	}
	var schema map[string]any
	if answer["error"] != nil {
		schema = d.Components.Responses["Error"].Content["application/json"].Schema
	} else {
		for pattern, methods := range d.Paths {
			if fits(pattern, path) && methods[strings.ToLower(method)] != nil {
				var op struct{ Responses map[string]content }
				if err := json.Unmarshal(methods[strings.ToLower(method)], &op); err != nil {
					return err
				}
				schema = op.Responses["200"].Content["application/json"].Schema
			}
		}
	}
	if schema == nil {
		return fmt.Errorf("the document has no %s %s", method, path)
	}
	schema["$defs"] = d.Components.Schemas
	text, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte("#/components/schemas/"), []byte("#/$defs/"))
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return err
	}
	return resolved.Validate(answer)
}

// fits reports whether a path is one of a pattern such as /sessions/{id}.
func fits(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}

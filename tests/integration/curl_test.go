package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/jsonschema-go/jsonschema"
)

// validatingCurl is curl as the scripts find it: the real one, and every answer of
// the daemon is held against docs/openapi.json. What does not fit is written to a
// file, since scripts may look at neither status nor stderr.
func validatingCurl(args []string) int {
	self, _ := os.Readlink("/proc/self/exe")
	real := ""
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		p := filepath.Join(dir, "curl")
		if target, err := filepath.EvalSymlinks(p); err == nil && target != self {
			real = p
			break
		}
	}
	if real == "" {
		fmt.Fprintln(os.Stderr, "curl is not installed")
		return 127
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") && strings.Contains(a, "N") }) {
		err := syscall.Exec(real, append([]string{real}, args...), os.Environ()) // a stream
		fmt.Fprintln(os.Stderr, err)
		return 126
	}
	var out bytes.Buffer
	cmd := exec.Command(real, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, io.MultiWriter(os.Stdout, &out), os.Stderr
	err := cmd.Run()
	if wrong := againstDocument(args, out.Bytes()); err == nil && wrong != nil {
		f, err := os.OpenFile(os.Getenv("SANDBOXD_TEST_VIOLATIONS"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 126
		}
		defer f.Close()
		fmt.Fprintf(f, "curl %q: %v\n%s\n", args, wrong, out.Bytes())
	}
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		return ee.ExitCode()
	}
	return 0
}

// againstDocument says what is wrong with the answer to a command line of curl.
func againstDocument(args []string, body []byte) error {
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
	doc, err := os.ReadFile(os.Getenv("SANDBOXD_TEST_OPENAPI"))
	if err != nil {
		return err
	}
	type content struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	}
	var d struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas   map[string]any     `json:"schemas"`
			Responses map[string]content `json:"responses"`
		} `json:"components"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return err
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

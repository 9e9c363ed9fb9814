package api

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// The document itself is a file that package daemon makes, with all parts. Here: what it
// says of any route.
func TestTheDocumentHasEveryRoute(t *testing.T) {
	w := newWorld(t)
	text, err := OpenAPI(w.opts.Parts...)
	must(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string                     `json:"operationId"`
			Security    []map[string]any           `json:"security"`
			Body        json.RawMessage            `json:"requestBody"`
			Responses   map[string]json.RawMessage `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas   map[string]json.RawMessage `json:"schemas"`
			Responses map[string]json.RawMessage `json:"responses"`
		} `json:"components"`
	}
	must(t, json.Unmarshal(text, &doc))
	ids := map[string]bool{}
	for _, rt := range New(w.opts).routes() {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		op, ok := doc.Paths[path][strings.ToLower(method)]
		if !ok {
			t.Errorf("%s is not in the document", rt.Pattern)
			continue
		}
		if op.OperationID == "" || ids[op.OperationID] {
			t.Errorf("%s has the operation id %q, which is none or that of another", rt.Pattern, op.OperationID)
		}
		ids[op.OperationID] = true
		if (op.Body != nil) != (rt.Spec.In != nil) {
			t.Errorf("%s: body %s", rt.Pattern, op.Body)
		}
		if agents := len(op.Security) == 2; agents != (rt.Role == "agent") {
			t.Errorf("%s is served by %v", rt.Pattern, op.Security)
		}
		if rt.Spec.Created && op.Responses["201"] == nil || op.Responses["200"] == nil && op.Responses["201"] == nil {
			t.Errorf("%s has no answer of success", rt.Pattern)
		}
	}
	for _, m := range regexp.MustCompile(`"#/components/(schemas|responses)/([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		in := doc.Components.Schemas
		if m[1] == "responses" {
			in = doc.Components.Responses
		}
		if in[m[2]] == nil {
			t.Errorf("the document refers to %s, which it does not have", m[0])
		}
	}
	if doc.Paths["/metrics"]["get"].OperationID != "getMetrics" {
		t.Error("the metrics are not in the document")
	}
}

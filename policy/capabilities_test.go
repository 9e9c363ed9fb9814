package policy

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/tests/golden"
)

// allowedBuiltins is the decision that rego/capabilities.json writes down: pure
// functions whose cost is bounded by the size of what they are given. No network,
// clock, randomness or environment, so that a decision can be repeated; nothing
// that allocates or computes far more than its input (numbers.range, bits.lsh,
// regex.find_n, strings.replace_n, graph.*, glob.match is a cached automaton).
var allowedBuiltins = []string{
	"assign", "eq", "equal", "neq", "lt", "lte", "gt", "gte",
	"plus", "minus", "mul", "div", "rem", "abs", "ceil", "floor", "round",
	"count", "sum", "product", "max", "min", "sort", "any", "all",
	"array.concat", "array.slice", "array.reverse",
	"object.get", "object.keys", "object.union", "object.union_n", "object.remove", "object.filter", "object.subset",
	"and", "or", "intersection", "union", "internal.member_2", "internal.member_3", "internal.print",
	"concat", "contains", "endswith", "startswith", "format_int", "indexof", "lower", "upper", "split", "sprintf",
	"replace", "substring", "trim", "trim_left", "trim_right", "trim_prefix", "trim_suffix", "trim_space",
	"strings.any_prefix_match", "strings.any_suffix_match", "strings.count", "strings.reverse",
	"regex.match", "regex.is_valid", "glob.match", "glob.quote_meta",
	"net.cidr_contains", "net.cidr_is_valid", "semver.compare", "semver.is_valid",
	"is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string", "type_name",
	"to_number", "json.is_valid", "base64.decode", "base64.is_valid", "hex.decode", "urlquery.decode",
	"time.parse_rfc3339_ns", "time.clock", "time.weekday",
}

func TestCapabilitiesAreGenerated(t *testing.T) {
	caps := ast.CapabilitiesForThisVersion()
	var kept []*ast.Builtin
	for _, b := range caps.Builtins {
		if slices.Contains(allowedBuiltins, b.Name) {
			kept = append(kept, b)
		}
	}
	caps.Builtins = kept
	caps.WasmABIVersions = nil
	caps.AllowNet = []string{}
	want, err := json.MarshalIndent(caps, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "../rego/capabilities.json", string(want)+"\n")
}

package policy

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkDefined refuses a reference below data that no rule defines. It would be undefined in
// every call, and a deny that needs it would never hold: no data is loaded beside the rules.
// Tests may say data.x with "with", so they are left out.
func checkDefined(c *ast.Compiler) error {
	for _, file := range slices.Sorted(maps.Keys(c.Modules)) {
		if strings.HasPrefix(file, libraryPrefix) || isTest(file) {
			continue
		}
		var err error
		for _, rule := range c.Modules[file].Rules {
			ast.WalkRefs(rule, func(ref ast.Ref) bool {
				if err == nil && !defined(c, ref) {
					err = fmt.Errorf("%s:%d: %v is defined nowhere, so that what needs it never holds: write the "+
						"values as a rule of a package; files with data are not loaded",
						file, ref[0].Location.Row, ref.ConstantPrefix())
				}
				return false
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// permissionTables is where the compiled permission rules are.
var permissionTables = ast.MustParseRef("data.sandboxd.rules")

func defined(c *ast.Compiler, ref ast.Ref) bool {
	if !ref.HasPrefix(ast.DefaultRootRef) || ref.HasPrefix(permissionTables) {
		return true
	}
	node := c.RuleTree
	for _, term := range ref.ConstantPrefix() {
		if node = node.Child(term.Value); node == nil {
			return false
		}
		if len(node.Values) > 0 { // the rest is a part of its value
			return true
		}
	}
	return true
}

// isData reports whether other programs load a file as data beside the rules.
func isData(name string) bool {
	base := filepath.Base(name)
	return base == "data.json" || base == "data.yaml" || base == "data.yml"
}

package input

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// NewChanged builds the document for what a call has changed.
func NewChanged(c *tool.Call, changes []tool.Changed) (*Document, error) {
	in, err := New(c)
	if err != nil {
		return nil, err
	}
	in.Changes = changes
	return in, nil
}

var changeKeys = keys("path", "kind", "bytes_before", "bytes_after", "tracked", "uncommitted", "protected", "own",
	"moved")

func changeValue(c tool.Changed) ast.Value {
	return object(changeKeys, text(strings.ToValidUTF8(c.Path, "\uFFFD")), text(string(c.Kind)), number(c.BytesBefore),
		number(c.BytesAfter), truth(c.Tracked), truth(c.Uncommitted), truth(c.Protected), truth(c.Own), truth(c.Moved))
}

func number(n int64) ast.Value { return ast.Number(json.Number(strconv.FormatInt(n, 10))) }

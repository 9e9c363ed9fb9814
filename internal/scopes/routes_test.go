package scopes

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
)

// Agents may call each route. While the disk has no room, those that keep what is sent are refused, and those that read
// or delete are not.
func TestWhichRoutesKeepWhatIsSent(t *testing.T) {
	for _, rt := range newWorld(t).routes {
		keeps := strings.HasPrefix(rt.Pattern, "PUT ") || strings.HasPrefix(rt.Pattern, "POST ") ||
			strings.HasPrefix(rt.Pattern, "PATCH ")
		if strings.HasSuffix(rt.Pattern, "/preview") {
			keeps = false
		}
		if rt.Role != tool.RoleAgent || rt.Keeps != keeps {
			t.Errorf("%s: of role %q, keeps %v", rt.Pattern, rt.Role, rt.Keeps)
		}
	}
}

package daemon

import (
	"os"
	"os/user"
	"strconv"
	"testing"

	"github.com/sandboxd/sandboxd/internal/config"
)

// Who is an operator by a group is one as well.
func TestRoleSplit(t *testing.T) {
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	for _, tt := range []struct {
		name      string
		accounts  map[int]string
		operators config.Operators
		want      string
	}{
		{"nobody is named", nil, config.Operators{}, "advisory"},
		{"an agent", map[int]string{uid: "a"}, config.Operators{}, "enforced"},
		{"others operate", map[int]string{uid: "a"}, config.Operators{UIDs: []int{uid + 1}, GIDs: []int{gid + 1}}, "enforced"},
		{"an operator", map[int]string{uid: "a"}, config.Operators{UIDs: []int{uid}}, "advisory"},
		{"an operator by a group", map[int]string{uid: "a"}, config.Operators{GIDs: []int{gid}}, "advisory"},
		{"root", map[int]string{0: "a"}, config.Operators{}, "advisory"},
		{"the daemon", map[int]string{os.Geteuid(): "a"}, config.Operators{}, "advisory"},
	} {
		s := &Site{Config: &config.Config{Operators: tt.operators}}
		s.Config.Accounts.Names = tt.accounts
		if got := s.RoleSplit(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

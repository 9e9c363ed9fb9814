package integration

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
)

// TestTheSettingsOfVariablesHold: each of the section vars is that of the daemon, and not its default.
func TestTheSettingsOfVariablesHold(t *testing.T) {
	d := newDaemon(t, "vars: {capacity: 5, maxValue: 4000, nested: all}\n")
	s := d.session()
	put := func(name string, size int) error {
		_, err := d.agent.PutVar(t.Context(), s, name, client.VarChange{Value: strings.Repeat("x", size)})
		return err
	}
	if err := put("inner", 4001); errorCode(err) != "value_too_large" {
		t.Errorf("maxValue: %v", err)
	}
	if err := put("inner", 4); err != nil {
		t.Fatal(err)
	}
	d.write("ws/f", "$VAR_REF{{inner}}")
	read := d.call(s, "Read", `{"file_path":"f"}`)
	r := d.call(s, "Edit", `{"file_path":"f","old_string":"$","new_string":"<$VAR_REF{{`+read.VarResult+`}}>"}`)
	if got := d.read("ws/f"); !strings.HasPrefix(got, "<1\txxxx>") {
		t.Errorf("nested: the file is %q, after %+v", got, r)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		if err := put(name, 1); err != nil {
			t.Fatal(err)
		}
	}
	all, err := d.agent.Vars(t.Context(), s, client.VarFilter{})
	if err != nil || len(all) != 5 || all[0].Name != "d" || all[2].Name != "b" {
		t.Errorf("capacity: got %+v, %v", all, err)
	}
}

package shellparse

import (
	"encoding/json"
	"testing"
)

// TestNothingComesFromTheEnvironment: a line means the same in every process that parses it.
func TestNothingComesFromTheEnvironment(t *testing.T) {
	const line = `cat ~/x "$HOME/y" "$X" $PWD/z; cd; cat w; X=$X rm ~- ~root/v`
	parsed := func() string {
		s, err := Parse(line, Options{})
		if err != nil {
			return err.Error()
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := parsed()
	for _, name := range []string{"HOME", "PWD", "OLDPWD", "X", "USER", "IFS", "CDPATH", "BASH_ENV"} {
		t.Setenv(name, "/from/the/environment")
	}
	t.Chdir(t.TempDir())
	if after := parsed(); after != before {
		t.Errorf("in another environment it is\n%s\nand not\n%s", after, before)
	}
}

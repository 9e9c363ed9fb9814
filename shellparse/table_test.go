package shellparse

import "testing"

func TestTablesCompile(t *testing.T) {
	for name, s := range commands() {
		if s.do != "" && doers(s.do) == nil {
			t.Errorf("%s: do=%s is not known", name, s.do)
		}
	}
}

package vet

import "testing"

// A line of suspects.txt that lacks its tab is not left out in silence.
func TestASuspectWithoutATabIsAnError(t *testing.T) {
	if all := readSuspects("# what it is\na secret\t\\bsecret\\b\n"); len(all) != 1 || all[0].what != "a secret" {
		t.Errorf("read %v", all)
	}
	defer func() {
		if recover() == nil {
			t.Error("a line without a tab was taken")
		}
	}()
	readSuspects("a secret  \\bsecret\\b\n")
}

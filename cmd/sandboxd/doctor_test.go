package main

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/doctor"
	"github.com/sandboxd/sandboxd/internal/review"
)

// On 40 columns the table broke in each of its columns.
func TestDoctorFitsANarrowTerminal(t *testing.T) {
	found := []doctor.Finding{
		{Layer: "files", Needed: true, Proved: true, What: "read a denied file: stopped"},
		{Layer: "cgroup2", What: "this host counts with cgroup v1"},
	}
	for _, tt := range []struct {
		screen review.Screen
		want   string
	}{
		{review.Screen{Width: 40, Terminal: true}, "files: needed yes, proved yes\n  read a denied file: stopped\n" +
			"cgroup2: needed no, proved no\n  this host counts with cgroup v1\n"},
		{review.Screen{Width: 120, Terminal: true}, "LAYER    NEEDED  PROVED  WHAT\n" +
			"files    yes     yes     read a denied file: stopped\n" +
			"cgroup2  no      no      this host counts with cgroup v1\n"},
		{review.Screen{Width: 40}, "LAYER    NEEDED  PROVED  WHAT\n" +
			"files    yes     yes     read a denied file: stopped\n" +
			"cgroup2  no      no      this host counts with cgroup v1\n"},
	} {
		var b strings.Builder
		if err := printFindings(&b, tt.screen, found); err != nil || b.String() != tt.want {
			t.Errorf("%+v: %v\n%s", tt.screen, err, b.String())
		}
	}
}

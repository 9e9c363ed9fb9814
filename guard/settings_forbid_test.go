package guard

import "testing"

func TestForbids(t *testing.T) {
	all := Settings{AllowedWritePaths: []string{"/work", "/data"}, DeniedPaths: []string{"/work/secret"}}
	for _, tt := range []struct {
		name     string
		now, was Settings
		want     string
	}{
		{"the same", all, all, ""},
		{"nothing named", Settings{}, Settings{}, ""},
		{"more may be written", Settings{AllowedWritePaths: []string{"/"}, DeniedPaths: all.DeniedPaths}, all, ""},
		{"everything may be written", Settings{}, all, ""},
		{
			"less may be written",
			Settings{AllowedWritePaths: []string{"/work"}},
			all,
			"allowedWritePaths does not have /data",
		},
		{
			"a part may be written",
			Settings{AllowedWritePaths: []string{"/work", "/data/x"}},
			all,
			"allowedWritePaths does not have /data",
		},
		{
			"not everything may be read",
			Settings{AllowedReadPaths: []string{"/usr"}},
			Settings{},
			"allowedReadPaths does not have everything",
		},
		{"one more is denied", Settings{DeniedPaths: []string{"/etc"}}, all, "deniedPaths has /etc"},
		{"a part of what was denied", Settings{DeniedPaths: []string{"/work/secret/x"}}, all, ""},
		{"more than was denied", Settings{DeniedPaths: []string{"/work"}}, all, "deniedPaths has /work"},
		{"less is denied", Settings{AllowedWritePaths: all.AllowedWritePaths}, all, ""},
		{
			"nothing could be written before",
			Settings{AllowedWritePaths: []string{"/work"}},
			Settings{AllowedWritePaths: []string{NoPath}},
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.now.Forbids(tt.was); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

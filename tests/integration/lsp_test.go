package integration

import (
	"path/filepath"
	"testing"
)

const searchedGo = "package a\n\nfunc (s *Server) Close() {}\n\ntype Server struct{}\n\nfunc use(s *Server) { s.Close() }\n"

func TestT52_X36_ASearchOfADaemon(t *testing.T) {
	d := newPlaces(t, "")
	d.write("config.yaml", "sandbox: {deniedPaths: ["+filepath.Join(d.ws, "secret")+"]}\n")
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.write("ws/a.go", searchedGo)
	d.write("ws/secret/b.go", "package b\n\ntype Server struct{}\n")
	d.start()
	s := d.session()
	for _, tt := range []struct{ args, want string }{
		{
			`{"operation":"goToDefinition","file_path":"a.go","line":6,"character":12}`,
			"a.go:5:type Server struct{}",
		},
		{
			`{"operation":"goToDefinition","file_path":"` + d.ws + `/a.go","line":6,"character":25}`,
			"a.go:3:func (s *Server) Close() {}",
		},
		{
			`{"operation":"documentSymbol","file_path":"a.go"}`,
			"a.go:3:func (s *Server) Close() {}\na.go:5:type Server struct{}\na.go:7:func use(s *Server) { s.Close() }",
		},
	} {
		if got := d.good(s, "LSP", tt.args); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.args, got, tt.want)
		}
	}
	d.refuses(s, "LSP", `{"operation":"documentSymbol","file_path":"secret/b.go"}`, "path_denied", "secret")
	d.refuses(s, "LSP", `{"operation":"documentSymbol","file_path":"/etc/shadow"}`, "path_denied", "/etc/shadow")
}

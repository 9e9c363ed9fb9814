package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// goplsProgram names the language server of Go to the tests; make test-lsp installs it.
const goplsProgram = "SANDBOXD_TEST_GOPLS"

// newGopls is a daemon with the real language server of Go, over a module without dependencies. The server lies in the
// workspace, because /tmp and /var/tmp are private in a cage.
func newGopls(t *testing.T) *running {
	t.Helper()
	gopls := os.Getenv(goplsProgram)
	if gopls == "" {
		needs.Elsewhere(t, "%s names no gopls; make test-lsp does", goplsProgram)
	}
	compiler := needs.Program(t, "go")
	d := newPlaces(t, fmt.Sprintf(`lsp:
  timeout: 5m
  servers:
    go:
      command: env
      args: [./gopls]
      extensions: [.go]
      env: {GOFLAGS: -mod=mod, GOPROXY: "off", GOTOOLCHAIN: local, GOTELEMETRY: "off", PATH: "%s:/usr/bin:/bin"}
`, filepath.Dir(compiler)))
	program, err := os.ReadFile(gopls)
	if err == nil {
		err = os.WriteFile(filepath.Join(d.ws, "gopls"), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.write("ws/go.mod", "module example.com/m\n\ngo 1.24\n")
	d.write("ws/a.go", "package m\n\ntype Closer interface{ Close() error }\n\ntype File struct{}\n\n"+
		"// Close does nothing.\nfunc (File) Close() error { return nil }\n\nvar _ Closer = File{}\n")
	d.write("ws/sub/use.go", "package sub\n\nimport (\n\t\"fmt\"\n\n\t\"example.com/m\"\n)\n\n"+
		"func Use(f m.File) { _ = f.Close(); fmt.Println() }\n")
	d.start()
	return d
}

func TestT52_RealGopls(t *testing.T) {
	d := newGopls(t)
	s := d.session()
	closing := "a.go:8:func (File) Close() error { return nil }"
	for _, tt := range []struct{ args, want string }{
		{`{"operation":"goToDefinition","file_path":"sub/use.go","line":8,"character":28}`, closing},
		{
			`{"operation":"findReferences","file_path":"a.go","line":7,"character":13}`,
			closing + "\nsub/use.go:9:func Use(f m.File) { _ = f.Close(); fmt.Println() }",
		},
		{
			`{"operation":"documentSymbol","file_path":"a.go"}`,
			"a.go:3:type Closer interface{ Close() error }\na.go:5:type File struct{}\n" + closing,
		},
		{`{"operation":"workspaceSymbol","query":"example.com/m/sub.Use"}`, "sub/use.go:9:func Use(f m.File) { _ = f.Close(); fmt.Println() }"},
	} {
		if got := d.good(s, "LSP", tt.args); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.args, got, tt.want)
		}
	}
	// What is beside the working directory comes last.
	if got := d.good(s, "LSP", `{"operation":"goToImplementation","file_path":"a.go","line":2,"character":24}`); !strings.HasPrefix(got, closing) {
		t.Errorf("got %q", got)
	}
	if got := d.good(s, "LSP", `{"operation":"hover","file_path":"a.go","line":7,"character":13}`); !strings.Contains(got, "Close does nothing") {
		t.Errorf("got %q", got)
	}
	// The text of the library of Go is beside the working directory.
	got := d.good(s, "LSP", `{"operation":"goToDefinition","file_path":"sub/use.go","line":8,"character":41}`)
	if !strings.Contains(got, "/fmt/print.go:") || strings.Contains(got, "func Println") {
		t.Errorf("got %q", got)
	}
	// What the agent changes is known at the next question.
	d.good(s, "Write", `{"file_path":"sub/new.go","content":"package sub\n\nimport \"example.com/m\"\n\nvar _ = m.File.Close\n"}`)
	want := closing + "\nsub/new.go:5:var _ = m.File.Close\nsub/use.go:9:func Use(f m.File) { _ = f.Close(); fmt.Println() }"
	if got := d.good(s, "LSP", `{"operation":"findReferences","file_path":"a.go","line":7,"character":13}`); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if entries, err := os.ReadDir(d.ws); err != nil || len(entries) != 4 {
		t.Errorf("the workspace has %v, %v", entries, err)
	}
	if text := d.metrics(); !strings.Contains(text, "\nsandboxd_language_servers 1\n") {
		t.Errorf("one server runs: %s", text)
	}
	if n := d.servers(); n != 1 {
		t.Errorf("%d servers run", n)
	}
	d.does(d.agent, "DELETE", "/sessions/"+s, nil, nil)
	if n := d.servers(); n != 0 {
		t.Errorf("%d servers run after the end of the session", n)
	}
}

// servers is how many language servers run.
func (d *running) servers() int {
	d.t.Helper()
	var status struct {
		Parts struct {
			LSP struct{ Running int } `json:"lsp"`
		} `json:"parts"`
	}
	d.does(d.operator, "GET", "/status", nil, &status)
	return status.Parts.LSP.Running
}

// shellServer is a language server in a few lines of shell: it reads messages, and answers initialize.
const shellServer = `len() { LC_ALL=C; echo ${#1}; }
send() { printf 'Content-Length: %d\r\n\r\n%s' "$(len "$1")" "$1"; }
read_message() { n=0; while IFS= read -r l; do l=${l%$'\r'}; [ -z "$l" ] && break; case $l in Content-Length:*) n=${l#*: };; esac; done
  [ "$n" = 0 ] && exit 0; IFS= LC_ALL=C read -r -N "$n" body; }
id_of() { [[ $body =~ \"id\":([0-9]+) ]] && echo "${BASH_REMATCH[1]}"; }
answer() { send "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
while :; do read_message; id=$(id_of)
  case $body in *'"initialize"'*) answer {}; continue;; esac
`

// sh answers every question with what it can do in its cage.
const sh = shellServer + `[ -z "$id" ] && continue
  said=; touch own 2>/dev/null && said="$said wrote"; touch "$TMPDIR/x" 2>/dev/null && said="$said tmp"
  (exec 3<>/dev/tcp/127.0.0.1/$PORT) 2>/dev/null && said="$said reached"; cat secret 2>/dev/null && said="$said secret"
  [ -e "$HOME/.ssh/id_rsa" ] && said="$said key"
  answer "{\"contents\":\"can:$said\"}"
done
`

func TestT52_TheCageOfAServer(t *testing.T) {
	t.Parallel()
	d := newPlaces(t, "")
	d.write("ws/server", sh)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d.write("config.yaml", fmt.Sprintf(`sandbox: {deniedPaths: [%s/secret]}
lsp: {idle: 1s, servers: {text: {command: bash, args: [./server], extensions: [.txt], env: {PORT: "%d"}}}}
`, d.ws, l.Addr().(*net.TCPAddr).Port))
	d.env = append(d.env, "SANDBOXD_CONFIG="+filepath.Join(d.work, "config.yaml"))
	d.write("ws/secret", "SECRET")
	d.write("ws/a.txt", "text\n")
	d.start()
	s := d.session()
	hover := `{"operation":"hover","file_path":"a.txt","line":0}`
	if got := d.good(s, "LSP", hover); got != "can: tmp" {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat(filepath.Join(d.ws, "own")); err == nil {
		t.Error("it wrote into the workspace")
	}
	if !waitFor(func() bool { return d.servers() == 0 }) {
		t.Error("nobody asks the server, and it runs")
	}
	if got := d.good(s, "LSP", hover); got != "can: tmp" {
		t.Errorf("got %q", got)
	}
	d.refuses(s, "LSP", `{"operation":"hover","file_path":"secret","line":0}`, "path_denied", "secret")
	if r := d.call(s, "LSP", `{"operation":"hover","file_path":"server","line":0}`); r.Status != client.StatusError ||
		r.Error.Code != "no_language_server" {
		t.Errorf("got %+v", r)
	}
}

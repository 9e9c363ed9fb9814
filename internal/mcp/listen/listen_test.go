package listen_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/internal/mcp/listen"
	"github.com/sandboxd/sandboxd/internal/route"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/tests/needs"
)

const secret = "abcdefghijklmnopqrstuvwxyz012345"

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func open(t *testing.T, file string) *listen.Port {
	t.Helper()
	p, err := listen.Open("127.0.0.1:0", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func ask(p *listen.Port, path, bearer string) (route.Caller, error) {
	r := httptest.NewRequest(http.MethodPost, strings.TrimSuffix(p.URL(), "/mcp")+path, nil)
	r.Header.Set("Authorization", "Bearer "+bearer)
	return p.Caller(httptest.NewRecorder(), r)
}

func TestM24_OnlyTheLoopbackIsListenedOn(t *testing.T) {
	file := tokenFile(t, secret)
	for _, addr := range []string{
		"", "8765", ":8765", "0.0.0.0:8765", "[::]:8765", "192.0.2.1:8765", "localhost:8765", "127.0.0.1", "[::ffff:10.0.0.1]:1",
	} {
		if err := listen.Check(addr); err == nil {
			t.Errorf("%q is taken", addr)
		}
		if p, err := listen.Open(addr, file); err == nil {
			p.Close()
			t.Errorf("%q is opened", addr)
		}
	}
	for _, addr := range []string{"127.0.0.1:8765", "127.1.2.3:1", "[::1]:8765"} {
		if err := listen.Check(addr); err != nil {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func TestM24_ATokenFileThatIsNotSafeOpensNothing(t *testing.T) {
	with := func(change func(file string) error) string {
		file := tokenFile(t, secret+"\n")
		if err := change(file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	text := func(s string) string { return tokenFile(t, s) }
	for _, tt := range []struct{ name, file, want string }{
		{"none", filepath.Join(t.TempDir(), "none"), "no such file"},
		{"a directory", t.TempDir(), "not a regular file"},
		{"a pipe", with(func(f string) error { os.Remove(f); return syscall.Mkfifo(f, 0o600) }), "not a regular file"},
		{"others may read", with(func(f string) error { return os.Chmod(f, 0o604) }), "mode 0604"},
		{"a group may read", with(func(f string) error { return os.Chmod(f, 0o640) }), "mode 0640"},
		{"a link", with(func(f string) error { return os.Symlink(f, f+"2") }) + "2", "too many levels"},
		{"two names", with(func(f string) error { return os.Link(f, f+"2") }), "another name"},
		{"empty", text(""), "one line of 32"},
		{"short", text(secret[:31]), "one line of 32"},
		{"two lines", text(secret + "\n" + secret), "one line of 32"},
		{"a space", text(secret + " x"), "one line of 32"},
		{"long", text(strings.Repeat("x", 1001)), "one line of 32"},
		{"a carriage return", text(secret + "\r\n"), "one line of 32"},
	} {
		p, err := listen.Open("127.0.0.1:0", tt.file)
		if err == nil {
			p.Close()
		}
		e, ok := errors.AsType[*tool.Error](err)
		if !ok || e.Code != "token_file_unusable" || !strings.Contains(e.Msg, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestM24_ARequestAtAPortBearsTheToken(t *testing.T) {
	p := open(t, tokenFile(t, secret+"\n"))
	_, port, _ := strings.Cut(p.Addr().String(), ":")
	for _, tt := range []struct {
		name, host, origin, path string
		auth                     []string
		want                     int // 0 is let in
	}{
		{"the token", "", "", "/mcp", []string{"Bearer " + secret}, 0},
		{"as localhost", "localhost:" + port, "http://localhost:" + port, "/v1/mcp", []string{"bearer " + secret}, 0},
		{"its own origin", "", "http://127.0.0.1:" + port, "/mcp", []string{"Bearer " + secret}, 0},
		{"none", "", "", "/mcp", nil, 401},
		{"empty", "", "", "/mcp", []string{"Bearer "}, 401},
		{"another", "", "", "/mcp", []string{"Bearer " + secret[1:] + "x"}, 401},
		{"a longer one", "", "", "/mcp", []string{"Bearer " + secret + "x"}, 401},
		{"another scheme", "", "", "/mcp", []string{"Basic " + secret}, 401},
		{"two headers", "", "", "/mcp", []string{"Bearer " + secret, "Bearer x"}, 401},
		{"another path", "", "", "/sessions", []string{"Bearer " + secret}, 404},
		{"another path without the token", "", "", "/sessions", nil, 401},
		{"a name that leads here", "evil.example:" + port, "", "/mcp", []string{"Bearer " + secret}, 421},
		{"a name without a port", "localhost", "", "/mcp", []string{"Bearer " + secret}, 421},
		{"a longer name", "localhost:" + port + ".evil.example", "", "/mcp", []string{"Bearer " + secret}, 421},
		{"a page", "", "https://evil.example", "/mcp", []string{"Bearer " + secret}, 403},
		{"a page of another port", "", "http://localhost:1", "/mcp", []string{"Bearer " + secret}, 403},
		{"a page of no origin", "", "null", "/mcp", []string{"Bearer " + secret}, 403},
	} {
		r := httptest.NewRequest(http.MethodPost, strings.TrimSuffix(p.URL(), "/mcp")+tt.path, nil)
		if tt.host != "" {
			r.Host = tt.host
		}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		r.Header["Authorization"] = tt.auth
		w := httptest.NewRecorder()
		by, err := p.Caller(w, r)
		got, code := 0, ""
		if err != nil {
			refused := err.(route.Error) //nolint:errorlint // it is what the route answers
			got, code = refused.Status, refused.Said.Code
		}
		codes := map[int]string{401: "token_refused", 403: "host_refused", 404: "not_found", 421: "host_refused"}
		if code != codes[tt.want] {
			t.Errorf("%s: the code %q, want %q", tt.name, code, codes[tt.want])
		}
		if got != tt.want || (got == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %d %v %v, want %d", tt.name, got, err, w.Header(), tt.want)
		}
		if got == 0 && (by.UID != os.Geteuid() || by.Role != tool.RoleAgent || by.GID != os.Getegid()) {
			t.Errorf("%s: it is %+v", tt.name, by)
		}
	}
}

// Another token counts at once, and a file that has become unsafe lets nobody in.
func TestM24_TheTokenIsReadForEachRequest(t *testing.T) {
	file := tokenFile(t, secret)
	p := open(t, file)
	other := strings.ToUpper(secret)
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(p, "/mcp", secret); err == nil {
		t.Error("the old token is taken")
	}
	if _, err := ask(p, "/mcp", other); err != nil {
		t.Errorf("the new token: %v", err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(p, "/mcp", other); err == nil || !strings.Contains(err.Error(), "others can read") {
		t.Errorf("a file that others read: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for _, bearer := range []string{other, ""} {
		if _, err := ask(p, "/mcp", bearer); err == nil {
			t.Errorf("%q is taken without a file", bearer)
		}
	}
}

// The clients are the owner of the file, with the groups of the database of users.
func TestM24_TheOwnerOfTheFileIsWhoCalls(t *testing.T) {
	needs.Root(t, "to give files to other users")
	for _, tt := range []struct {
		uid  int
		want string
	}{{1, ""}, {64999, "unknown userid 64999"}} {
		file := tokenFile(t, secret)
		if err := os.Chown(file, tt.uid, 0); err != nil {
			t.Fatal(err)
		}
		by, err := ask(open(t, file), "/mcp", secret)
		switch {
		case tt.want != "":
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("uid %d: %v, want %q", tt.uid, err, tt.want)
			}
		case err != nil || by.UID != tt.uid || by.GID == 0 || slices.Contains(by.Groups, 0):
			t.Errorf("uid %d: %+v, %v", tt.uid, by, err)
		}
	}
}

package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// keeper is a daemon that has a token for a server of this test, which programs know as
// api.test.
type keeper struct {
	*running
	token string
	mu    sync.Mutex
	got   []string // guarded by mu: what stood in Authorization
}

// asEach runs a test with a daemon of root and with one of another user.
func asEach(t *testing.T, test func(t *testing.T, uid int)) {
	t.Helper()
	t.Parallel()
	for _, uid := range []int{0, 64150} {
		t.Run(fmt.Sprintf("uid %d", uid), func(t *testing.T) {
			if uid != 0 {
				needs.Root(t, "to be another user")
			} else if os.Getuid() == 0 {
				tier.Long(t, "most daemons are no daemons of root")
			}
			test(t, uid)
		})
	}
}

func newKeeper(t *testing.T, more string, handler http.HandlerFunc, config ...string) *keeper {
	t.Helper()
	return newKeeperAs(t, 0, more, handler, config...)
}

func newKeeperAs(t *testing.T, uid int, more string, handler http.HandlerFunc, config ...string) *keeper {
	t.Helper()
	needs.Program(t, "curl")
	k := &keeper{token: "tok_" + strings.ToLower(rand.Text())}
	cert := serverCertificate(t, "api.test")
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.got = append(k.got, r.Header.Get("Authorization"))
		k.mu.Unlock()
		handler(w, r)
	}))
	s.EnableHTTP2, s.TLS = true, &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	t.Cleanup(s.Close)
	k.running = newPlaces(t, "x: 1\n")
	k.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	k.write("token", k.token+"\n")
	if err := os.Chmod(filepath.Join(k.work, "token"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.write("config.yaml", fmt.Sprintf(`
sessions: {mode: auto}
sandbox:
  network:
    allowedDomains: [api.test]
    hosts: {"api.test:443": %q}
    intercept: [api.test]
    caFile: %s/ca.pem
    secrets: [{host: api.test, file: %[2]s/token%s}]
%s`, s.Listener.Addr(), k.work, more, strings.Join(config, "")))
	if uid != 0 {
		k.becomeAnother(uid, "")
	}
	k.start()
	k.needsWayOut()
	return k
}

func (k *keeper) sent() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.got, "\n")
}

func serverCertificate(tb testing.TB, names ...string) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	of := x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, &of, &of, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// bash is a call of Bash that has to succeed.
func (k *keeper) bash(session, command string) string {
	k.t.Helper()
	args, _ := json.Marshal(map[string]string{"command": command})
	r := k.call(session, "Bash", string(args))
	if r.Status != client.StatusSuccess {
		k.t.Fatalf("%s: %s %q %+v %+v", command, r.Status, r.FormattedText, r.Error, r.Network)
	}
	return r.FormattedText
}

// TestProgramsNeverHoldTheToken: the usual clients are known to the host, and nothing that the
// daemon wrote or the sandbox can read has the token.
func TestProgramsNeverHoldTheToken(t *testing.T) { asEach(t, programsNeverHoldTheToken) }

func programsNeverHoldTheToken(t *testing.T, uid int) {
	k := newKeeperAs(t, uid, `, value: "Bearer {{file}}"`, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s with %s\n", r.Method, r.URL.Path, r.Header.Get("Authorization"))
	})
	s := k.session()
	stars := "Bearer " + strings.Repeat("*", len(k.token))
	clients := map[string]string{
		"curl":    "curl -sS https://api.test/x",
		"wget":    "wget -qO- https://api.test/x",
		"node":    "node -e 'fetch(\"https://api.test/x\").then(r=>r.text()).then(t=>process.stdout.write(t))'",
		"python3": "python3 -c 'import urllib.request as u;print(u.urlopen(\"https://api.test/x\").read().decode(),end=\"\")'",
	}
	for program, command := range clients {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("%s is not here", program)
			continue
		}
		k.forget(s)
		if got := k.bash(s, command); got != "GET /x with "+stars+"\n" {
			t.Errorf("%s: got %q", program, got)
		}
	}
	for _, got := range strings.Split(k.sent(), "\n") {
		if got != "Bearer "+k.token {
			t.Errorf("the host got %q", got)
		}
	}
	// All that programs can read, except the machine's own large trees.
	k.forget(s)
	// The pattern does not match itself.
	k.write("ws/look.sh", fmt.Sprintf(`cd ..
{ env; cat /proc/*/environ /proc/*/cmdline; } 2>/dev/null | grep -aoE '[%s]%s'
grep -rlsE '[%[1]s]%[2]s' /run /tmp /etc /home /root . /proc/self/environ
echo searched; cat tok*`, k.token[:1], k.token[1:]))
	found := k.bash(s, "sh ./look.sh 2>&1; true")
	if !strings.HasPrefix(found, "searched\n") || strings.Contains(found, k.token) {
		t.Errorf("a program found it: %s", found)
	}
	k.stop(os.Interrupt)
	if strings.Contains(k.log.String(), k.token) {
		t.Error("it is in the log")
	}
	k.searchFor(k.token)
}

// searchFor looks for a text in every file of the daemon's places but that of the token.
func (k *keeper) searchFor(text string) {
	k.t.Helper()
	k.searchBut(text, "token")
}

// searchBut leaves out the files where the text stands.
func (k *keeper) searchBut(text string, files ...string) {
	k.t.Helper()
	searched := 0
	err := filepath.WalkDir(k.work, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Dir(path) == k.work && slices.Contains(files, d.Name()) {
			return err
		}
		searched++
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			k.t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil || searched < 3 {
		k.t.Errorf("searched %d files: %v", searched, err)
	}
}

// gitBackend serves empty repositories, as git's own program for web servers does.
func gitBackend(t *testing.T, names ...string) http.Handler {
	t.Helper()
	needs.Program(t, "git")
	root := t.TempDir()
	for _, name := range names {
		for _, args := range [][]string{{"init", "-q", "--bare", name}, {"-C", name, "config", "http.receivepack", "true"}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
		}
	}
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: strings.TrimSpace(string(path)) + "/git-http-backend",
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	}
}

// TestGitPushesWithoutAToken: git over HTTPS, as a user with a password.
func TestGitPushesWithoutAToken(t *testing.T) { asEach(t, gitPushesWithoutAToken) }

func gitPushesWithoutAToken(t *testing.T, uid int) {
	backend := gitBackend(t, "r.git")
	var k *keeper
	k = newKeeperAs(t, uid, `, user: x-access-token`, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "x-access-token" || password != k.token {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	})
	s := k.session()
	k.bash(s, "git clone -q https://api.test/r.git c 2>&1; cd c && echo hi > f && git add f && git commit -qm one && "+
		"git push -q origin HEAD:main 2>&1")
	k.forget(s)
	if got := k.bash(s, "git clone -q -b main https://api.test/r.git d && cat d/f"); !strings.HasPrefix(got, "hi\n") {
		t.Errorf("got %q", got)
	}
	k.searchFor(k.token)
}

// TestSecretsRotateAndFail: another token is used at once, also by a call of a running session;
// a file that is gone, or that others can read, closes the host, and the operator sees why.
func TestSecretsRotateAndFail(t *testing.T) { asEach(t, secretsRotateAndFail) }

func secretsRotateAndFail(t *testing.T, uid int) {
	k := newKeeperAs(t, uid, "", func(http.ResponseWriter, *http.Request) {})
	s := k.session()
	k.bash(s, "curl -sS https://api.test/")
	file, first := filepath.Join(k.work, "token"), k.token
	k.write("token.new", "another-token")
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	k.forget(s)
	k.write("ws/look.sh", "curl -sS https://api.test/\ncat ../tok*\nls -l ..\n")
	if got := k.bash(s, "sh ./look.sh 2>&1; true"); strings.Contains(got, "another-token") {
		t.Errorf("a program reads the new file: %s", got)
	}
	if got := k.sent(); got != first+"\nanother-token" {
		t.Errorf("the host got %q", got)
	}
	secrets := func() string {
		cmd := exec.Command(filepath.Join(bin, "sandboxd"), "network", "secrets")
		cmd.Env, cmd.Dir = k.env, k.ws
		out, _ := cmd.CombinedOutput()
		if strings.Contains(string(out), "another-token") {
			t.Errorf("it is shown: %s", out)
		}
		return string(out)
	}
	if got := secrets(); !strings.Contains(got, "api.test  Authorization  file "+file+"  ready") {
		t.Errorf("got %s", got)
	}
	for want, spoil := range map[string]func() error{
		"chmod 600 it":            func() error { return os.Chmod(file, 0o644) },
		"several lines":           func() error { return os.WriteFile(file, []byte("one token\nand another"), 0o600) },
		"less than 8 characters":  func() error { return os.WriteFile(file, []byte("short"), 0o600) },
		"no such file or directo": func() error { return os.Rename(file, file+".gone") },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		k.forget(s)
		if got := k.bash(s, "curl -sS https://api.test/"); !strings.Contains(got, want) {
			t.Errorf("want %q, got %s", want, got)
		}
		if got := secrets(); !strings.Contains(got, want) {
			t.Errorf("want %q, got %s", want, got)
		}
		_ = os.Rename(file+".gone", file)
		if err := os.WriteFile(file, []byte("another-token"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(k.sent(), "\n"); got != 1 {
		t.Errorf("the host got requests without a secret: %q", k.sent())
	}
}

// TestSecretsAreNotOfTheRunner: the program of a lease runs as the caller, outside of the daemon,
// and gets no secret; the host is closed to it.
func TestSecretsAreNotOfTheRunner(t *testing.T) {
	k := newKeeper(t, "", func(http.ResponseWriter, *http.Request) {})
	s := k.session()
	var kept struct {
		CallID string `json:"call_id"`
	}
	want := map[string]any{
		"session_id": s, "tool": "Bash", "args": json.RawMessage(curl("https://api.test/")), "hold": true,
	}
	if err := k.agent.Do(t.Context(), "POST", "/decide", want, &kept); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "sandboxd"), "exec", "--call", kept.CallID)
	cmd.Env, cmd.Dir = k.env, k.ws
	out, _ := cmd.CombinedOutput()
	if !strings.Contains(string(out), "only the daemon has it") || k.sent() != "" {
		t.Errorf("got %s; the host got %q", out, k.sent())
	}
	if err := k.agent.Do(t.Context(), "POST", "/decide", want, &kept); err != nil {
		t.Fatal(err)
	}
	_, err := k.agent.RunLease(t.Context(), kept.CallID, func(_ context.Context, l client.Lease) client.LeaseEnd {
		if text := string(l.Settings); !strings.Contains(text, `"secrets":[{"host":"api.test","credential":"withheld"}]`) {
			t.Errorf("the runner is told where the secret is: %s", text)
		}
		return client.LeaseEnd{}
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

// TestALoneExecPutsInWhatItsCallerMayRead: without --call nobody but the caller reads the secret, and
// the host is closed where that fails.
func TestALoneExecPutsInWhatItsCallerMayRead(t *testing.T) {
	k := newKeeper(t, "", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "you sent", r.Header.Get("Authorization"))
	})
	out, err := k.loneSays("exec", "--", "curl", "-sS", "https://api.test/")
	if err != nil || k.sent() != k.token || !strings.Contains(out, "you sent ***") || strings.Contains(out, k.token) {
		t.Errorf("%v: %s; the host got %q", err, out, k.sent())
	}
	if err := os.Chmod(filepath.Join(k.work, "token"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := k.loneSays("exec", "--", "curl", "-sS", "https://api.test/"); k.sent() != k.token ||
		strings.Contains(out, "you sent") || !strings.Contains(out, "chmod 600") {
		t.Errorf("%s; the host got %q", out, k.sent())
	}
}

// TestSecretsSentUnaskedAreNotLogged: the HTTP client of the standard library would log the
// first bytes of a body behind the answer to HEAD.
func TestSecretsSentUnaskedAreNotLogged(t *testing.T) {
	k := newKeeper(t, "", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		body := r.Header.Get("Authorization")
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
	k.bash(k.session(), "curl -sS --http1.1 -I https://api.test/")
	k.stop(os.Interrupt)
	if log := k.log.String(); k.sent() != k.token || strings.Contains(log, k.token) || strings.Contains(log, "Unsolicited") {
		t.Errorf("the host got %q; the log: %s", k.sent(), log)
	}
}

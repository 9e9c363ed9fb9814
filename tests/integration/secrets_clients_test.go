package integration

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// TestRulesSeeRequestsInsideTLS: a rule allows GET, denies DELETE, and asks for PUT, about which a
// person reads the path.
func TestRulesSeeRequestsInsideTLS(t *testing.T) {
	rules := t.TempDir()
	rule := func(effect, method string) string {
		return fmt.Sprintf("findings contains {\"id\": \"acme.%s\", \"effect\": %q, \"message\": \"m\", \"subject\": \"connection\"} if {\n"+
			"\tinput.connection.method == %q\n\tinput.connection.host == \"api.test\"\n}\n", strings.ToLower(method), effect, method)
	}
	text := "package sandboxd.policies.acme.api\n\n" + rule("deny", "DELETE") + rule("ask", "PUT")
	if err := os.WriteFile(filepath.Join(rules, "api.rego"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := newKeeper(t, "", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method+"\n") },
		"policy: {dirs: ["+rules+"]}\n")
	s := k.session()
	k.write("ws/requests.sh", "for m in GET DELETE PUT GET; do\n"+
		"curl -sS -o out -w '%{http_code} ' -X $m https://api.test/repos/x; head -1 out; done\n")
	done := make(chan client.Result)
	go func() { done <- k.call(s, "Bash", `{"command":"sh ./requests.sh"}`) }()
	var items []struct {
		ID         string
		Connection struct{ Host, Method, Path string }
	}
	if !waitFor(func() bool {
		items = nil
		err := k.operator.Do(t.Context(), "GET", "/approvals", nil, &items)
		return err == nil && len(items) == 1
	}) {
		t.Fatalf("nobody is asked: %+v", items)
	}
	if c := items[0].Connection; c.Host != "api.test" || c.Method != "PUT" || c.Path != "/repos/x" {
		t.Errorf("asked about %+v", c)
	}
	if err := k.operator.Do(t.Context(), "POST", "/approvals/"+items[0].ID, map[string]any{"approved": true}, nil); err != nil {
		t.Fatal(err)
	}
	r := <-done
	want := "200 GET\n403 sandboxd: api.test is refused: m (acme.delete)\n200 PUT\n200 GET\n"
	if r.FormattedText != want {
		t.Errorf("got %q %+v", r.FormattedText, r.Error)
	}
	if r.Network == nil || len(r.Network.Connections) != 2 || r.Network.Connections[0].Count != 3 ||
		r.Network.Connections[1].Verdict != "deny" || r.Network.Connections[1].Count != 1 {
		t.Errorf("the ledger: %+v", r.Network)
	}
}

// wheel is the smallest package that pip takes.
func wheel(t *testing.T) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range map[string]string{
		"hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
		"hello-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"hello-1.0.dist-info/RECORD":   "",
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPackageToolsWithTokens: npm reads and publishes, pip downloads, each with a token that only the
// daemon has.
func TestPackageToolsWithTokens(t *testing.T) {
	tier.Long(t, "a real client that takes seconds")
	asEach(t, packageToolsWithTokens)
}

func packageToolsWithTokens(t *testing.T, uid int) {
	pack := wheel(t)
	var k *keeper
	var published []byte
	k = newKeeperAs(t, uid, `, value: "Bearer {{file}}"`, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+k.token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch {
		case r.Method == http.MethodPut:
			published, _ = io.ReadAll(r.Body)
			_, _ = io.WriteString(w, "{}")
		case r.URL.Path == "/hello":
			_, _ = io.WriteString(w, `{"name":"hello","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"hello","version":"1.0.0"}}}`)
		case r.URL.Path == "/simple/hello/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<a href="/hello-1.0-py3-none-any.whl">hello-1.0-py3-none-any.whl</a>`)
		case strings.HasSuffix(r.URL.Path, ".whl"):
			_, _ = w.Write(pack)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	k.write("ws/publish.sh", "mkdir p; cd p; echo '{\"name\":\"hello\",\"version\":\"2.0.0\"}' > package.json\n"+
		"npm publish --registry https://api.test/ --//api.test/:_authToken=none --fetch-retries 0\n")
	s := k.session()
	for _, tt := range []struct{ program, command, want string }{
		{"npm", "npm view hello version --registry https://api.test/ --fetch-retries 0 2>&1", "1.0.0"},
		{"npm", "sh ./publish.sh 2>&1", "+ hello@2.0.0"},
		{"pip3", "pip3 --disable-pip-version-check download --no-deps --retries 0 -i https://api.test/simple/ hello 2>&1", "Successfully downloaded hello"},
	} {
		if _, err := exec.LookPath(tt.program); err != nil {
			t.Logf("%s is not here", tt.program)
			continue
		}
		k.forget(s)
		args, _ := json.Marshal(map[string]any{"command": tt.command, "timeout": 60000})
		r := k.call(s, "Bash", string(args))
		t.Run(tt.program, func(t *testing.T) {
			if strings.Contains(r.FormattedText, "command not found") {
				needs.Elsewhere(t, "this sandbox shows no %s", tt.program)
			}
			if !strings.Contains(r.FormattedText, tt.want) {
				t.Errorf("got %s %q %+v %+v", r.Status, r.FormattedText, r.Error, r.Network)
			}
		})
	}
	if len(published) == 0 && !t.Failed() {
		t.Error("nothing was published")
	}
	k.searchFor(k.token)
}

// TestFiftySecretsAreNowhere: hosts that say back all that they are sent; then every byte that
// the daemon wrote and the sandbox can read is searched.
func TestFiftySecretsAreNowhere(t *testing.T) { asEach(t, fiftySecretsAreNowhere) }

func fiftySecretsAreNowhere(t *testing.T, uid int) {
	needs.Program(t, "curl")
	n := tier.Rounds(t, 12, 50) // a third from each kind of source
	marker := "zq" + strings.ToLower(rand.Text()[:10])
	var mu sync.Mutex
	got := map[string]string{}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("s%d.test", i))
	}
	cert := serverCertificate(t, names...)
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("X-Key") + r.Header.Get("Authorization")
		mu.Lock()
		got[r.Host] = auth
		mu.Unlock()
		w.Header().Set("X-Echo", auth)
		w.Header().Set("Set-Cookie", "t="+auth)
		fmt.Fprintf(w, "%s %s %x\n", auth, base64.StdEncoding.EncodeToString([]byte("is:"+auth)), auth)
	}))
	up.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	up.StartTLS()
	t.Cleanup(up.Close)
	d := newPlaces(t, "x: 1\n")
	if err := os.Mkdir(filepath.Join(d.work, "sources"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	secrets := make([]string, n)
	var hosts, list strings.Builder
	for i, name := range names {
		secrets[i] = marker + strings.ToLower(rand.Text())
		file := filepath.Join(d.work, "sources", fmt.Sprint(i))
		if err := os.WriteFile(file, []byte(secrets[i]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&hosts, "      %q: %q\n", name+":443", up.Listener.Addr())
		source := []string{"file: " + file, "header: X-Key, command: [/bin/cat, " + file + "]", "user: git, file: " + file}[i%3]
		fmt.Fprintf(&list, "      - {host: %s, %s}\n", name, source)
	}
	d.write("config.yaml", fmt.Sprintf(`
sessions: {mode: auto}
log: {level: debug}
sandbox:
  network:
    allowedDomains: ["*.test"]
    intercept: ["*.test"]
    caFile: %s/ca.pem
    hosts:
%s    secrets:
%s`, d.work, &hosts, &list))
	if uid != 0 {
		d.becomeAnother(uid, "")
	}
	d.start()
	d.needsWayOut()
	k := &keeper{running: d}
	s := d.session()
	said := k.bash(s, fmt.Sprintf("for i in $(seq 0 %d); do curl -sSi -H 'X-Key: mine' https://s$i.test/; done | tee kept", n-1))
	d.write("ws/look.sh", fmt.Sprintf(`cd ..
{ env; cat /proc/*/environ /proc/*/cmdline; } 2>/dev/null | grep -aoE '[%s]%s'
grep -rlsE '[%[1]s]%[2]s' /run /tmp /etc /home /root /var/tmp . /proc/self/environ
for f in sources/* config.yaml token*; do head -c 1 $f && echo $f; done 2>/dev/null
echo searched`, marker[:1], marker[1:]))
	d.forget(s)
	if found := k.bash(s, "sh ./look.sh 2>/dev/null; true"); found != "searched\n" {
		t.Errorf("a program found: %s", found)
	}
	history := d.told(s)
	d.stop(os.Interrupt)
	for i, secret := range secrets {
		want := map[int]string{0: secret, 1: secret, 2: "Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+secret))}[i%3]
		if has := got[names[i]]; has != want && has != "mine"+want {
			t.Errorf("%s got %q", names[i], has)
		}
		forms := []string{secret, base64.StdEncoding.EncodeToString([]byte("git:" + secret)), fmt.Sprintf("%x", secret)}
		for _, form := range forms {
			if strings.Contains(said+history+d.log.String(), form) {
				t.Errorf("the secret of %s is in an answer or the log", names[i])
			}
		}
		_ = filepath.WalkDir(d.work, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || strings.HasPrefix(path, filepath.Join(d.work, "sources")) {
				return err
			}
			data, err := os.ReadFile(path)
			for _, form := range forms {
				if bytes.Contains(data, []byte(form)) {
					t.Errorf("%s has the secret of %s", path, names[i])
				}
			}
			return err
		})
	}
}

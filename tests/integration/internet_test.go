package integration

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/client"
	"github.com/sandboxd/sandboxd/tests/needs"
)

// internet is a small one of this test: web servers with several names, the registries of
// package managers, git over HTTP, and a server that speaks first. Nothing of it is on the
// machine's network but its loopback.
type internet struct {
	web, secure, db, sql string // addresses
	ca                   []byte // who signs its certificates
}

// onTheWeb are the hosts that the settings list. What is served as off.test nobody lists.
var onTheWeb = []string{"web.test", "npm.test", "pypi.test", "go.test", "crates.test", "git.test", "apt.test"}

func newInternet(t *testing.T) internet {
	t.Helper()
	repos := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", repos + "/left"},
		{"-C", repos + "/left", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"},
		{"-C", repos + "/left", "config", "http.receivepack", "false"},
	} {
		if out, err := exec.Command(needs.Program(t, "git"), args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v %s", args, err, out)
		}
	}
	hosts := map[string]http.Handler{
		"web.test": http.HandlerFunc(serveWeb), "off.test": http.HandlerFunc(serveWeb),
		"npm.test": serveFiles(npmRegistry()), "pypi.test": serveFiles(pypiIndex()), "go.test": serveFiles(goProxy()),
		"crates.test": serveFiles(cratesIndex()), "apt.test": serveFiles(aptRepository()),
		"git.test": &cgi.Handler{
			Path: filepath.Join(gitDir(t), "git-http-backend"), Root: "/",
			Env: []string{"GIT_PROJECT_ROOT=" + repos, "GIT_HTTP_EXPORT_ALL=1"}, InheritEnv: []string{"HOME", "PATH"},
		},
	}
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		if h := hosts[host]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	})
	web, secure := httptest.NewServer(serve), httptest.NewUnstartedServer(serve)
	certificate, ca := certificates(t, append([]string{"off.test"}, onTheWeb...)...)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	secure.StartTLS()
	db, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go speakFirst(db)
	t.Cleanup(func() { web.Close(); secure.Close(); db.Close() })
	return internet{web.Listener.Addr().String(), secure.Listener.Addr().String(), db.Addr().String(), newDatabase(t), ca}
}

// serveWeb is a page, and an echo for WebSockets.
func serveWeb(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" {
		fmt.Fprintf(w, "page of %s\n", r.Host)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(conn, buffered) // until the client has enough
}

// speakFirst greets who connects, as databases do.
func speakFirst(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_, _ = io.WriteString(conn, "ready\n")
			_, _ = io.Copy(conn, conn)
		}()
	}
}

func serveFiles(files map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/simple/") {
			w.Header().Set("Content-Type", "text/html")
		}
		_, _ = w.Write(body)
	})
}

func gitDir(t *testing.T) string {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// certificates is one for all names, and who signed it.
func certificates(t testing.TB, names ...string) (tls.Certificate, []byte) {
	t.Helper()
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	root := &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	root.Subject.CommonName = "authority of a test"
	caDER, caKey := make(root, root, nil)
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, key := make(leaf, ca, caKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
}

// tarball is a .tar.gz of files, in this order: name, text, name, text.
func tarball(files ...string) []byte {
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	tw := tar.NewWriter(gz)
	for i := 0; i < len(files); i += 2 {
		_ = tw.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}) // it is memory
		_, _ = io.WriteString(tw, files[i+1])
	}
	tw.Close()
	gz.Close()
	return out.Bytes()
}

func zipped(files ...string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		w, _ := z.Create(files[i]) // it is memory
		_, _ = io.WriteString(w, files[i+1])
	}
	z.Close()
	return out.Bytes()
}

func npmRegistry() map[string][]byte {
	tgz := tarball("package/package.json", `{"name":"left","version":"1.0.0"}`, "package/index.js", "module.exports = 'left'\n")
	sum := sha1.Sum(tgz) // the registry's own
	about, _ := json.Marshal(map[string]any{
		"name": "left", "dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{
			"name": "left", "version": "1.0.0",
			"dist": map[string]string{"tarball": "https://npm.test/left/-/left-1.0.0.tgz", "shasum": hex.EncodeToString(sum[:])},
		}},
	})
	return map[string][]byte{"/left": about, "/left/-/left-1.0.0.tgz": tgz}
}

func pypiIndex() map[string][]byte {
	return map[string][]byte{
		"/simple/left/": []byte(`<!DOCTYPE html><html><body><a href="/left-1.0-py3-none-any.whl">left-1.0-py3-none-any.whl</a></body></html>`),
		"/left-1.0-py3-none-any.whl": zipped("left.py", "side = 'left'\n",
			"left-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: left\nVersion: 1.0\n",
			"left-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
			"left-1.0.dist-info/RECORD", "left.py,,\nleft-1.0.dist-info/METADATA,,\nleft-1.0.dist-info/WHEEL,,\nleft-1.0.dist-info/RECORD,,\n"),
	}
}

func goProxy() map[string][]byte {
	const mod = "module left.test/m\n\ngo 1.20\n"
	return map[string][]byte{
		"/left.test/m/@v/list": []byte("v1.0.0\n"), "/left.test/m/@v/v1.0.0.mod": []byte(mod),
		"/left.test/m/@v/v1.0.0.info": []byte(`{"Version":"v1.0.0"}`),
		"/left.test/m/@v/v1.0.0.zip":  zipped("left.test/m@v1.0.0/go.mod", mod, "left.test/m@v1.0.0/m.go", "package m\n"),
	}
}

func cratesIndex() map[string][]byte {
	crate := tarball("left-1.0.0/Cargo.toml", "[package]\nname = \"left\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
		"left-1.0.0/src/lib.rs", "pub fn left() {}\n")
	sum := sha256.Sum256(crate)
	about, _ := json.Marshal(map[string]any{
		"name": "left", "vers": "1.0.0", "deps": []string{}, "cksum": hex.EncodeToString(sum[:]),
		"features": map[string]any{}, "yanked": false,
	})
	return map[string][]byte{
		"/index/config.json": []byte(`{"dl":"https://crates.test/dl/{crate}/{version}"}`), "/index/le/ft/left": append(about, '\n'),
		"/dl/left/1.0.0": crate,
	}
}

// visits are what clients do there. HOST is replaced by a host.
var visits = []struct {
	name, program, listed, script, want string
}{
	{"HTTP", "curl", "web.test", "curl -sS http://HOST/", "page of HOST"},
	{"HTTPS", "curl", "web.test", "curl -sS https://HOST/", "page of HOST"},
	{"HTTP by wget", "wget", "web.test", "wget -t 1 -qO- http://HOST/", "page of HOST"},
	{"a proxy that is named", "curl", "web.test", "curl -sS -x http://127.0.0.1:3128 https://HOST/", "page of HOST"},
	{"SOCKS", "curl", "web.test", "curl -sS -x socks5h://127.0.0.1:3128 https://HOST/", "page of HOST"},
	{"Python", "python3", "web.test", `python3 -c 'import urllib.request as u; print(u.urlopen("https://HOST/").read())'`, "page of HOST"},
	{"node", "node", "web.test", `node -e 'fetch("https://HOST/").then(r => r.text()).then(console.log)'`, "page of HOST"},
	{
		"WebSocket", "python3", "web.test", `python3 -c 'import socket
s = socket.create_connection(("HOST", 80)); s.settimeout(20)
s.sendall(b"GET / HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n")
print(s.recv(4096).split(b"\r\n")[0]); s.sendall(b"ping"); print(s.recv(99))'`, "b'ping'",
	},
	{"git", "git", "git.test", "git clone -q https://HOST/left repo && git -C repo log --format=%s", "first"},
	{"npm", "npm", "npm.test", "npm install --silent --no-audit --no-fund --prefix n --registry https://HOST/ left && cat n/node_modules/left/index.js", "left"},
	{
		"pip", "pip3", "pypi.test",
		"/usr/bin/pip3 -q install --retries 0 --disable-pip-version-check --target p --index-url https://HOST/simple left && cat p/left.py",
		"side =",
	},
	{
		"go", "go", "go.test",
		"GOPROXY=https://HOST GOSUMDB=off GOMODCACHE=$PWD/m go mod download -x left.test/m@v1.0.0 && cat m/left.test/m@v1.0.0/m.go",
		"package m",
	},
	{
		"cargo", "cargo", "crates.test",
		`mkdir -p c/src c/.cargo && cd c && touch src/lib.rs && printf '[package]\nname = "c"\nversion = "0.1.0"\n[dependencies]\nleft = "1"\n' > Cargo.toml &&
printf '[source.crates-io]\nreplace-with = "t"\n[source.t]\nregistry = "sparse+https://HOST/index/"\n[net]\nretry = 0\n' > .cargo/config.toml && cargo fetch -v 2>&1 && cat Cargo.lock`,
		`name = "left"`,
	},
	{"a server that speaks first", "bash", "db.test", `timeout 20 bash -c 'exec 3<>/dev/tcp/HOST/5432; head -1 <&3'`, "ready"},
	{"apt", "apt-get", "apt.test", aptVisit, "Package: left"},
	{
		"a database", "psql", "sql.test",
		`PGCONNECT_TIMEOUT=20 PGUSER=u psql -X -At -h HOST -d d -c 'select 1'`, "row of the database",
	},
}

// TestX12_EveryClientReachesWhatIsListed, and nothing else: as root and as another user, through
// an internet of the test's own.
func TestX12_EveryClientReachesWhatIsListed(t *testing.T) {
	world := newInternet(t)
	asEach(t, func(t *testing.T, uid int) {
		d := world.daemon(t, uid)
		s := d.session()
		for _, v := range visits {
			t.Run(v.name, func(t *testing.T) { d.visit(t, s, v.program, v.listed, v.script, v.want) })
		}
		for name, script := range map[string]string{
			"a port that is not named": "timeout 20 bash -c 'exec 3<>/dev/tcp/db.test/5433; head -1 <&3'",
			"a name with another port": "timeout 20 bash -c 'exec 3<>/dev/tcp/web.test/5432; head -1 <&3'",
			"another host inside":      "curl -sS -H 'Host: off.test' http://web.test/",
			"another server name":      "curl -sS --connect-to off.test:443:web.test:443 https://off.test/",
		} {
			d.script(script)
			if r := d.call(s, "Bash", `{"command":"bash ./try.sh"}`); !refusedThere(r) || strings.Contains(r.FinalText, "page of") {
				t.Errorf("%s: %s %+v", name, r.FinalText, r.Network)
			}
		}
	})
}

// daemon is one whose programs may reach what is named, and trust its certificates.
func (w internet) daemon(t *testing.T, uid int) *running {
	t.Helper()
	config := "sessions: {mode: auto}\nsandbox:\n  limits: {wallSeconds: 60}\n  network:\n    unlisted: deny\n    allowedDomains: [" +
		strings.Join(onTheWeb, ", ") + ", \"db.test:5432\", \"sql.test:5432\"]\n    hosts:\n"
	for _, host := range append([]string{"off.test"}, onTheWeb...) {
		config += fmt.Sprintf("      \"%s:80\": %q\n      \"%[1]s:443\": %[3]q\n", host, w.web, w.secure)
	}
	config += fmt.Sprintf("      \"db.test:5432\": %q\n      \"db.test:5433\": %[1]q\n      \"web.test:5432\": %[1]q\n", w.db)
	config += fmt.Sprintf("      \"sql.test:5432\": %q\n", w.sql)
	d := newPlaces(t, config)
	d.write("ws/ca.pem", string(w.ca))
	if err := os.Chmod(filepath.Join(d.ws, "ca.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	if uid != 0 {
		d.becomeAnother(uid, "")
	}
	d.start()
	d.needsWayOut()
	return d
}

// needsWayOut skips the test where the host gives programs no network of their own.
func (d *running) needsWayOut() {
	d.t.Helper()
	var status struct{ Sandbox client.Report }
	if err := d.operator.Do(d.t.Context(), "GET", "/status", nil, &status); err != nil {
		d.t.Fatal(err)
	}
	if status.Sandbox.Isolation != "namespaces" {
		needs.Missing(d.t, "isolation level %q has no way out", status.Sandbox.Isolation)
	}
}

// script is what the next call runs. The guard does not read it, so that nothing is refused
// before it connects.
func (d *running) script(text string) {
	d.t.Helper()
	d.write("ws/try.sh", text+"\n")
	if err := os.Chmod(filepath.Join(d.ws, "try.sh"), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// sparse skips the test if the cargo of the sandbox reads registries as repositories of git alone. Debian
// 12 has such a one.
func (d *running) sparse(t *testing.T, session string) {
	t.Helper()
	r := d.call(session, "Bash", `{"command":"cargo --version"}`)
	if minor, ok := cargoMinor(r.FormattedText); ok && minor < 68 {
		needs.Elsewhere(t, "sparse registries came with cargo 1.68; here is %s", r.FormattedText)
	}
}

// cargoMinor is 95 of "cargo 1.95.0 (f2d3ce0bd 2026-03-21)". Before 1.0 the number of cargo was one more than
// that of its Rust: 0.66 is of 1.65.
func cargoMinor(version string) (minor int, ok bool) {
	var major int
	if n, _ := fmt.Sscanf(version, "cargo %d.%d", &major, &minor); n != 2 {
		return 0, false
	}
	if major == 0 {
		minor--
	}
	return minor, true
}

func TestOldCargo(t *testing.T) {
	for version, want := range map[string]int{
		"cargo 1.95.0 (f2d3ce0bd 2026-03-21)\n": 95, "cargo 1.68.2\n": 68, "cargo 0.66.0\n": 65, "cargo: not found": 0, "": 0,
	} {
		if got, ok := cargoMinor(version); got != want || ok != (want > 0) {
			t.Errorf("%q: got %d, %t, want %d", version, got, ok, want)
		}
	}
}

// visit reaches the host that is listed, and is refused at one that is not.
func (d *running) visit(t *testing.T, session, program, listed, script, want string) {
	t.Helper()
	if r := d.call(session, "Bash", fmt.Sprintf(`{"command":"command -v %s"}`, program)); r.FormattedText == "" ||
		strings.Contains(r.FormattedText, "Exit code:") {
		needs.Elsewhere(t, "this sandbox shows no %s", program)
	}
	if program == "cargo" {
		d.sparse(t, session)
	}
	const trust = `set -e; export CURL_CA_BUNDLE=$PWD/ca.pem SSL_CERT_FILE=$PWD/ca.pem NODE_EXTRA_CA_CERTS=$PWD/ca.pem ` +
		`GIT_SSL_CAINFO=$PWD/ca.pem PIP_CERT=$PWD/ca.pem CARGO_HTTP_CAINFO=$PWD/ca.pem npm_config_cafile=$PWD/ca.pem ` +
		`npm_config_fetch_retries=0 GOFLAGS=-mod=mod` + "\ncd $(mktemp -d)\n"
	for _, host := range []string{listed, "off.test"} {
		d.script(trust + strings.ReplaceAll(script, "HOST", host))
		r := d.call(session, "Bash", `{"command":"bash ./try.sh"}`)
		got := strings.Contains(r.FinalText, strings.ReplaceAll(want, "HOST", host))
		if host == listed && (!got || !allowedThere(r)) {
			t.Errorf("%s is not reached: %s\n%+v", host, r.FinalText, r.Network)
		}
		if host != listed && (got || !refusedThere(r)) {
			t.Errorf("%s is reached: %s\n%+v", host, r.FinalText, r.Network)
		}
	}
}

// allowedThere reports whether a connection of a call was let through.
func allowedThere(r client.Result) bool {
	return r.Network != nil && slices.ContainsFunc(r.Network.Connections,
		func(row client.Connection) bool { return row.Verdict == "allow" })
}

// refusedThere reports whether a connection or a look-up of a call was refused, and none to that host
// was let through.
func refusedThere(r client.Result) bool {
	if r.Network == nil {
		return false
	}
	for _, row := range r.Network.Connections {
		if row.Verdict == "deny" {
			return true
		}
	}
	return false
}

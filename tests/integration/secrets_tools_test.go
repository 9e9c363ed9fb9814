package integration

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
	"github.com/sandboxd/sandboxd/tests/tier"
)

// fetchJava prints what an address answers, by both clients of the language.
const fetchJava = `import java.io.*;
import java.net.*;
import java.net.http.*;

public class Fetch {
	public static void main(String[] args) throws Exception {
		URI at = URI.create(args[0]);
		var request = HttpRequest.newBuilder(at).build();
		System.out.print(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
		System.out.print(new String(at.toURL().openStream().readAllBytes()));
	}
}
`

// TestJavaTrustsTheSession: a JVM has a trust store of its own, which has the session's authority, and it
// needs neither a setting nor a proxy.
func TestJavaTrustsTheSession(t *testing.T) {
	tier.Long(t, "a real client that takes seconds")
	asEach(t, javaTrustsTheSession)
}

func javaTrustsTheSession(t *testing.T, uid int) {
	k := newKeeperAs(t, uid, `, value: "Bearer {{file}}"`, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s with %s\n", r.URL.Path, r.Header.Get("Authorization"))
	})
	s := k.session()
	k.write("ws/Fetch.java", fetchJava)
	if got := k.call(s, "Bash", `{"command":"javac --version"}`).FormattedText; !strings.HasPrefix(got, "javac ") {
		needs.Elsewhere(t, "this sandbox has no compiler of Java: %s", got)
	}
	k.forget(s)
	args, _ := json.Marshal(map[string]any{"command": "java Fetch.java https://api.test/x", "timeout": 120000})
	r := k.call(s, "Bash", string(args))
	want := "/x with Bearer " + strings.Repeat("*", len(k.token)) + "\n"
	if r.FormattedText != want+want {
		t.Errorf("got %q %+v %+v", r.FormattedText, r.Error, r.Network)
	}
}

// bring puts a program into the workspace: programs of a home are not shown in the sandbox.
func (k *keeper) bring(program string) {
	k.t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		k.t.Fatal(err)
	}
	name := "ws/bin/" + filepath.Base(program)
	k.write(name, string(text))
	if err := os.Chmod(filepath.Join(k.work, name), 0o755); err != nil {
		k.t.Fatal(err)
	}
}

// TestCargoPublishesWithoutAToken: to a registry that wants a token for everything, and it has none.
func TestCargoPublishesWithoutAToken(t *testing.T) { asEach(t, cargoPublishesWithoutAToken) }

func cargoPublishesWithoutAToken(t *testing.T, uid int) {
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		needs.Elsewhere(t, "cargo is not installed")
	}
	if real, err := exec.Command("rustup", "which", "cargo").Output(); err == nil {
		cargo = strings.TrimSpace(string(real)) // what is on PATH only finds it
	}
	var published atomic.Value // the body
	var k *keeper
	k = newKeeperAs(t, uid, "", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != k.token:
			w.Header().Set("WWW-Authenticate", `Cargo login_url="https://api.test/me"`)
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/index/config.json":
			_, _ = io.WriteString(w, `{"dl": "https://api.test/dl", "api": "https://api.test", "auth-required": true}`)
		case r.URL.Path == "/api/v1/crates" && r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{"crates":[{"name":"hello","max_version":"1.0.0","description":"of cargo"}],"meta":{"total":1}}`)
		case r.URL.Path == "/api/v1/crates/new" && r.Method == http.MethodPut:
			body, _ := io.ReadAll(r.Body)
			published.Store(string(body))
			_, _ = io.WriteString(w, `{"warnings":{"invalid_categories":[],"invalid_badges":[],"other":[]}}`)
		case r.URL.Path == "/index/he/ll/hello" && published.Load() != nil: // cargo waits for it
			_, _ = io.WriteString(w, `{"name":"hello","vers":"2.0.0","deps":[],"cksum":"`+strings.Repeat("0", 64)+`","features":{},"yanked":false}`+"\n")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	k.bring(cargo)
	const registry = "export CARGO_REGISTRIES_MINE_INDEX=sparse+https://api.test/index/ CARGO_REGISTRIES_MINE_TOKEN=none " +
		"CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS=cargo:token CARGO_NET_RETRY=0\n"
	k.write("ws/cargo.sh", registry+"cargo=$PWD/bin/cargo; $cargo --version\n$cargo search --registry mine hello 2>&1\n"+
		"mkdir -p p/src; cd p; touch src/lib.rs\nprintf '[package]\\nname = \"hello\"\\nversion = \"2.0.0\"\\nedition = \"2021\"\\n"+
		"license = \"MIT\"\\ndescription = \"x\"\\n' > Cargo.toml\n$cargo publish --registry mine --no-verify --allow-dirty 2>&1\n")
	s := k.session()
	r := k.call(s, "Bash", `{"command":"sh ./cargo.sh","timeout":120000}`)
	if version, _, _ := strings.Cut(r.FormattedText, "\n"); !strings.HasPrefix(version, "cargo ") {
		t.Errorf("cargo does not run: %s", r.FormattedText)
	} else if minor, _ := cargoMinor(version); minor < 74 {
		needs.Elsewhere(t, "registries that want a token for everything came with cargo 1.74; here is %s", version)
	}
	if got := r.FormattedText; !strings.Contains(got, "of cargo") || !strings.Contains(got, "Published hello v2.0.0") {
		t.Errorf("got %s %+v %+v", got, r.Error, r.Network)
	}
	if what := fmt.Sprint(published.Load()); !strings.Contains(what, `"vers":"2.0.0"`) {
		t.Errorf("published %.200s", what)
	}
	for _, got := range strings.Split(k.sent(), "\n") {
		if got != k.token {
			t.Errorf("the host got %q", got)
		}
	}
	k.searchFor(k.token)
}

// githubClient is the variable with the path of GitHub's client; make test-clients sets it.
const githubClient = "SANDBOXD_TEST_GH"

// TestGitHubsClientHasNoToken: it wants one in its environment, and sends it to nobody. It asks both
// interfaces, clones, pushes, and a rule refuses it what deletes.
func TestGitHubsClientHasNoToken(t *testing.T) { asEach(t, githubsClientHasNoToken) }

func githubsClientHasNoToken(t *testing.T, uid int) {
	gh := os.Getenv(githubClient)
	if gh == "" {
		var err error
		if gh, err = exec.LookPath("gh"); err != nil {
			needs.Elsewhere(t, "%s is not set: make test-clients builds GitHub's client and runs this", githubClient)
		}
	}
	rules := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(rules), 0o755), os.Chmod(rules, 0o755), os.WriteFile(filepath.Join(rules, "api.rego"), []byte(`package sandboxd.policies.acme.api

findings contains {"id": "acme.delete", "effect": "deny", "message": "nothing is deleted", "subject": "connection"} if {
	input.connection.method == "DELETE"
}
`), 0o644)); err != nil {
		t.Fatal(err)
	}
	repository := gitBackend(t, "o/r.git")
	var deleted atomic.Bool
	var k *keeper
	k = newKeeperAs(t, uid, `, user: x-access-token`, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "x-access-token" || password != k.token {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/o/r.git/") {
			repository.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodDelete:
			deleted.Store(true)
		case r.URL.Path == "/api/v3/user":
			fmt.Fprintf(w, `{"login":"me","as":%q}`, r.Header.Get("Authorization"))
		case r.URL.Path == "/api/v3/meta":
			_, _ = io.WriteString(w, `{"installed_version":"3.17.0"}`)
		case r.URL.Path == "/api/graphql":
			graphQL(t, w, r)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}, "policy: {dirs: ["+rules+"]}\n")
	k.bring(gh)
	k.write("ws/hub.sh", `export GH_HOST=api.test GH_ENTERPRISE_TOKEN=none GH_CONFIG_DIR=$PWD/gh-config PATH=$PWD/bin:$PATH
gh api user --jq '.login, .as'
gh issue list -R o/r --json number,title --jq '.[] | "#\(.number) \(.title)"'
gh repo clone o/r c -- -q && cd c && echo hi > f && git add f && git commit -qm one && git push -q origin HEAD:main && echo pushed
gh api -X DELETE repos/o/r && echo deleted
`)
	s := k.session()
	r := k.call(s, "Bash", `{"command":"sh ./hub.sh 2>&1","timeout":120000}`)
	got := r.FormattedText
	stars := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + k.token))
	for _, want := range []string{
		"me\nBasic " + strings.Repeat("*", len(stars)) + "\n", "#7 an issue\n", "pushed\n", "nothing is deleted (acme.delete)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in %s %+v %+v", want, got, r.Error, r.Network)
		}
	}
	if strings.Contains(got, "deleted\n") || deleted.Load() {
		t.Error("it was deleted")
	}
	k.searchFor(k.token)
	k.searchFor(stars)
}

// graphQL answers what GitHub's client asks of a repository and its issues.
func graphQL(t *testing.T, w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var q struct{ Query string }
	if err := json.Unmarshal(body, &q); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	switch {
	case strings.Contains(q.Query, "IssueList"):
		_, _ = io.WriteString(w, `{"data":{"repository":{"hasIssuesEnabled":true,"issues":{"totalCount":1,`+
			`"nodes":[{"number":7,"title":"an issue"}],"pageInfo":{"hasNextPage":false,"endCursor":""}}}}}`)
	case strings.Contains(q.Query, "__type"):
		_, _ = io.WriteString(w, `{"data":{}}`)
	default:
		_, _ = io.WriteString(w, `{"data":{"repository":{"id":"R_1","name":"r","owner":{"login":"o"},"hasWikiEnabled":false,`+
			`"viewerPermission":"WRITE","defaultBranchRef":{"name":"main"}}}}`)
	}
}

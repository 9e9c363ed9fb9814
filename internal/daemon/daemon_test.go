package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
)

// TestQuestionsAreAnnounced shows the way from the configuration to the webhook
// and to the program, which is tried again when it fails.
func TestQuestionsAreAnnounced(t *testing.T) {
	heard := make(chan string, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		heard <- r.Header.Get("X-Sandboxd-Signature")
	}))
	defer srv.Close()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write("work/file", "")
	secret := write("secret", "0123456789abcdef")
	told := filepath.Join(dir, "told")
	if err := syscall.Mkfifo(told, 0o600); err != nil {
		t.Fatal(err)
	}
	conf := write("conf.yaml", "workspace: {roots: ["+dir+"/work]}\napprovals:\n"+
		"  webhook: {url: '"+srv.URL+"', secretFile: "+secret+"}\n"+
		"  command: [/bin/sh, -c, 'test -e "+dir+"/tried && exec cat > "+told+"; : > "+dir+"/tried; exit 1']\n")
	d, ctx, cancel := daemonIn(t, dir, conf)
	announced := make(chan error, 1)
	go func() { announced <- d.announce(ctx) }()
	asked := make(chan error, 1)
	go func() {
		c := tool.NewCall(tool.Request{Account: "a", Session: "s", Tool: "Bash"})
		c.Digest = "d"
		_, err := d.queue.Execution(ctx, c)
		asked <- err
	}()
	select {
	case got := <-heard:
		if !strings.HasPrefix(got, "sha256=") {
			t.Errorf("signed %q", got)
		}
	case err := <-asked:
		t.Fatalf("the question was not filed: %v", err)
	case err := <-announced:
		t.Fatalf("nobody announces: %v", err)
	}
	notices := make(chan string, 1)
	go func() {
		notice, _ := os.ReadFile(told)
		notices <- string(notice)
	}()
	select {
	case notice := <-notices:
		if !strings.Contains(notice, `"event":"approval_asked"`) {
			t.Errorf("the program was told %q", notice)
		}
	case <-time.After(time.Minute):
		t.Error("the program is not tried again")
	}
	cancel(nil)
	<-asked
	if err := <-announced; err != nil {
		t.Error(err)
	}
}

// daemonIn opens a daemon with its state in dir. It is closed when the test ends.
func daemonIn(t *testing.T, dir, conf string) (*daemon, context.Context, context.CancelCauseFunc) {
	t.Helper()
	t.Setenv("SANDBOXD_CONFIG", conf)
	t.Setenv("SANDBOXD_STATE_DIR", filepath.Join(dir, "state"))
	t.Setenv("SANDBOXD_RUNTIME_DIR", filepath.Join(dir, "run"))
	h, err := Load("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.makeState(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	d, err := openDaemon(ctx, h, cancel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel(nil)
		d.close()
	})
	return d, ctx, cancel
}

func TestStatusSaysWhatIsInForce(t *testing.T) {
	dir := t.TempDir()
	conf, work := filepath.Join(dir, "sandboxd.yaml"), t.TempDir()
	if err := os.WriteFile(conf, []byte("policy: {profile: observe}\nworkspace: {roots: ["+work+"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, ctx, cancel := daemonIn(t, dir, conf)
	asked := d.queue.Subscribe(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c := tool.NewCall(tool.Request{Account: "a", Session: "s", Tool: "Bash"})
		c.Digest = "d"
		_, _ = d.queue.Execution(ctx, c)
	}()
	<-asked
	s := d.statusOf(d.current.Load())
	if s.Version != "test" || s.Config.File != conf || s.Policy.Profile != policy.ProfileObserve || s.Policy.Revision == "" ||
		s.Policy.Failure != nil || s.RoleSplit == "" || len(s.Roots) == 0 || s.Uptime < 0 || s.Pending != 1 ||
		s.Sandbox.Isolation != d.current.Load().backend.Probe().Isolation {
		t.Errorf("got %+v", s)
	}
	cancel(nil)
	<-answered
}

// A change of the configuration that the record does not hold is none.
func TestAReloadThatCannotBeRecordedChangesNothing(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	conf := filepath.Join(dir, "sandboxd.yaml")
	configure := func(profile policy.Profile) {
		t.Helper()
		text := "policy: {profile: " + string(profile) + "}\nworkspace: {roots: [" + work + "]}\n"
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure(policy.ProfileDeveloper)
	d, ctx, _ := daemonIn(t, dir, conf)
	configure(policy.ProfileObserve)
	if err := d.record.Close(); err != nil { // it takes nothing any more
		t.Fatal(err)
	}
	if err := d.Reload(ctx, "ann", false); err == nil {
		t.Error("the reload succeeds")
	}
	if s := d.statusOf(d.current.Load()); s.Policy.Profile != policy.ProfileDeveloper || s.Config.Failure == nil {
		t.Errorf("in force is %q, with the failure %+v", s.Policy.Profile, s.Config.Failure)
	}
}

// A reload that changes what a running daemon cannot is refused with the name of the key, and changes nothing else.
func TestAReloadThatNeedsARestartIsRefused(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	conf := filepath.Join(dir, "sandboxd.yaml")
	configure := func(more string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte("workspace: {roots: ["+work+"]}\n"+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("policy: {profile: developer}\n")
	d, ctx, _ := daemonIn(t, dir, conf)
	configure("policy: {profile: observe}\nvars: {capacity: 5}\n")
	err := d.Reload(ctx, "ann", false)
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != "restart_required" || !strings.Contains(e.Msg, "vars.capacity ") {
		t.Errorf("got %v", err)
	}
	if s := d.statusOf(d.current.Load()); s.Policy.Profile != policy.ProfileDeveloper || s.Config.Failure == nil {
		t.Errorf("in force is %q, with the failure %+v", s.Policy.Profile, s.Config.Failure)
	}
}

// What the environment of the daemon says is secret is not written down, whoever says it.
func TestSecretsOfTheEnvironmentAreNotRecorded(t *testing.T) {
	const secret = "horse-battery-staple"
	t.Setenv("ACME_API_KEY", secret)
	dir, work := t.TempDir(), t.TempDir()
	conf := filepath.Join(dir, "sandboxd.yaml")
	configure := func(more string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte("workspace: {roots: ["+work+"]}\n"+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("")
	d, ctx, _ := daemonIn(t, dir, conf)
	configure(secret + ": 1\n")
	if err := d.Reload(ctx, "ann", false); err == nil || !strings.Contains(err.Error(), secret) {
		t.Fatalf("an unknown key: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "state", "audit.jsonl"))
	if err != nil || !strings.Contains(string(text), "unknown key") || strings.Contains(string(text), secret) {
		t.Errorf("the record has %s, %v", text, err)
	}
}

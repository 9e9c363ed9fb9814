package sandbox

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/sandboxd/sandboxd/sandbox/child"
)

func TestMain(m *testing.M) {
	if child.IsChild() {
		child.Main()
	}
	os.Exit(m.Run())
}

func TestFirst(t *testing.T) {
	b, err := NewBackend(Options{Runtime: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	t.Logf("%+v", b.Probe())
	ws := t.TempDir()
	box, err := b.Box(context.Background(), "s", "strict", Settings{AllowedWritePaths: []string{ws}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	var out bytes.Buffer
	p, err := box.Start(context.Background(), Spec{Argv: []string{"bash", "-c", "id; pwd; echo hi > x; ls -la; ps aux; mount; ls -la / /proc/sys/kernel/pid_max; cat /proc/sys/kernel/pid_max; ls -la /root /home; cat /proc/self/status | tail -30; env"}, Dir: ws, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Wait()
	t.Logf("%+v %v\n%s", e, err, out.String())
}

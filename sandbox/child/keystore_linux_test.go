package child

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/needs"
)

// TestKeystoresAreRead by the program of Java that writes them, which checks the digest too.
func TestKeystoresAreRead(t *testing.T) {
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		needs.Elsewhere(t, "keytool is not installed")
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(keytool, append(args, "-storepass", "changeit")...).CombinedOutput()
		if err != nil {
			t.Fatalf("keytool %q: %v %s", args, err, out)
		}
		return string(out)
	}
	var bundle []byte
	for _, name := range []string{"one", "two"} {
		from := filepath.Join(dir, name)
		run("-genkeypair", "-keystore", from, "-alias", name, "-dname", "CN="+name, "-keyalg", "EC")
		bundle = append(bundle, "# "+name+"\n"+run("-exportcert", "-rfc", "-keystore", from, "-alias", name)...)
	}
	bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})...)
	file := filepath.Join(dir, "cacerts")
	if err := os.WriteFile(file, keystore(bundle), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run("-list", "-v", "-keystore", file)
	for _, want := range []string{"Keystore type: JKS", "contains 2 entries", "Owner: CN=one", "Owner: CN=two", "authority-1"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

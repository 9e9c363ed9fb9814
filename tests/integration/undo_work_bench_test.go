package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/tests/bench"
)

// BenchmarkUndoWork is what agents run all day, with its changes kept beside the same without: a build of 50 packages
// whose cache is in the workspace, a test suite, and an install of 30 packages with 40 files each.
func BenchmarkUndoWork(b *testing.B) {
	const env = "export GOCACHE=$PWD/.cache GOFLAGS= GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0; "
	works := []struct{ name, command string }{
		{"build", env + "echo \"package base; const N = $(date +1%N)\" > base/base.go && go build -o app ."},
		{"test", env + "go test -count=1 ./p0 ./p1 ./p2"},
	}
	if _, err := exec.LookPath("npm"); err == nil {
		works = append(works, struct{ name, command string }{"install", "(cd site && rm -rf node_modules package-lock.json && " +
			"npm install --offline --no-audit --no-fund --cache=/tmp/npm)"})
	}
	var cases []bench.Case
	var limits []bench.Limit
	cache := "/nowhere"
	for _, mode := range []string{"auto", "off"} {
		d := newDaemon(b, "undo: {mode: "+mode+"}\npolicy: {profile: observe}\n"+
			"sessions: {mode: bypassPermissions, maxMode: bypassPermissions}\napi: {perSecond: 1000000}\n")
		writeProgram(d)
		writeSite(d)
		warm := exec.Command("bash", "-c", env+"cp -a "+cache+" .cache; go test -count=1 ./p0 ./p1 ./p2 && go build -o app .")
		warm.Dir = d.ws
		if out, err := warm.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		cache = filepath.Join(d.ws, ".cache") // the standard library is compiled once
		s := d.session()
		for _, w := range works {
			cases = append(cases, bench.Case{Name: w.name + ", " + mode, N: 7, Run: func() {
				r := d.call(s, "Bash", fmt.Sprintf(`{"command":%q,"timeout":600000}`, w.command))
				if r.Status != "SUCCESS" || strings.Contains(r.FinalText, "Exit code") {
					b.Fatalf("%s: %+v", w.command, r)
				}
			}})
		}
	}
	for _, w := range works {
		limits = append(limits, bench.Limit{Case: w.name + ", auto", Over: w.name + ", off", AtMost: 1.15})
	}
	bench.Compare(b, cases, limits...)
}

// writeProgram writes a Go program of 50 packages that all need one, three of which have tests.
func writeProgram(d *running) {
	d.write("ws/go.mod", "module made\n\ngo 1.24\n")
	d.write("ws/base/base.go", "package base; const N = 0")
	main := "package main\n\nimport (\n"
	for i := range 50 {
		pkg := fmt.Sprintf("p%d", i)
		main += fmt.Sprintf("\t_ %q\n", "made/"+pkg)
		text := "package " + pkg + "\n\nimport (\n\t\"fmt\"\n\t\"made/base\"\n)\n\n"
		for f := range 40 {
			text += fmt.Sprintf("func F%d(s []string) (n int) {\n\tfor i, x := range s {\n\t\tn += len(x)*i + base.N\n\t}\n"+
				"\tfmt.Println(n, s)\n\treturn n\n}\n\n", f)
		}
		d.write("ws/"+pkg+"/a.go", text)
	}
	d.write("ws/main.go", main+")\n\nfunc main() {}\n")
	for i := range 3 {
		d.write(fmt.Sprintf("ws/p%d/a_test.go", i), fmt.Sprintf("package p%d\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n"+
			"func Test(t *testing.T) {\n\tdir := t.TempDir()\n\tfor range 200 {\n\t\tF0(nil)\n"+
			"\t\t_ = os.WriteFile(dir+\"/f\", make([]byte, 1<<16), 0o600)\n\t}\n}\n", i))
	}
}

// writeSite writes a directory in which npm installs 30 packages that lie there.
func writeSite(d *running) {
	needs := make([]string, 0, 30)
	for i := range 30 {
		for f := range 40 {
			d.write(fmt.Sprintf("pack/package/lib/f%d.js", f), strings.Repeat(fmt.Sprintf("// %d %d\n", i, f), 100))
		}
		d.write("pack/package/package.json", fmt.Sprintf(`{"name":"p%d","version":"1.0.0"}`, i))
		at := filepath.Join(d.ws, fmt.Sprintf("site/p%d.tgz", i))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			d.t.Fatal(err)
		}
		if out, err := exec.Command("tar", "czf", at, "-C", filepath.Join(d.work, "pack"), "package").CombinedOutput(); err != nil {
			d.t.Fatalf("%v\n%s", err, out)
		}
		needs = append(needs, fmt.Sprintf(`"p%d":"file:p%d.tgz"`, i, i))
	}
	d.write("ws/site/package.json", `{"name":"site","version":"1.0.0","dependencies":{`+strings.Join(needs, ",")+"}}")
}

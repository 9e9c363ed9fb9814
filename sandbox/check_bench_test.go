package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
)

var typicalLines = map[string]string{
	"status":  "git status",
	"pipe":    "go test ./... 2>&1 | grep -v ok | tail -20",
	"heredoc": "cat > main.go <<'EOF'\npackage main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(1)\n\tfmt.Println(2)\n\tfmt.Println(3)\n\tfmt.Println(4)\n\tfmt.Println(5)\n\tfmt.Println(6)\n\tfmt.Println(7)\n\tfmt.Println(8)\n\tfmt.Println(9)\n}\nEOF\ngo build ./... && go vet ./...\n",
}

// BenchmarkFactsAndCheck is what one call costs the judge, the file system not
// included; compare with BenchmarkBareParse of shellparse.
func BenchmarkFactsAndCheck(b *testing.B) {
	r := NewRules(Settings{DeniedPaths: []string{"/etc/shadow", "/home/dev/.ssh"}, DeniedCommands: []string{"rm", "sudo"}, AllowedWritePaths: []string{"/home/dev/app", "/tmp"}})
	for name, line := range typicalLines {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := shellparse.Parse(line, shellparse.Options{Dir: "/home/dev/app", Home: "/home/dev"})
				if err != nil {
					b.Fatal(err)
				}
				r.Check(ScriptUses(s, "/home/dev/app", "/home/dev"))
			}
		})
	}
}

// BenchmarkRules shows that a check does not get slower with more rules.
func BenchmarkRules(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		var s Settings
		for i := range n {
			s.DeniedPaths = append(s.DeniedPaths, fmt.Sprintf("/srv/d%d/x", i))
			s.AllowedWritePaths = append(s.AllowedWritePaths, fmt.Sprintf("/home/dev/app%d", i))
			s.DeniedCommands = append(s.DeniedCommands, fmt.Sprintf("cmd%d", i))
		}
		r := NewRules(s)
		script, err := shellparse.Parse(typicalLines["pipe"]+" > /home/dev/app3/x", shellparse.Options{Dir: "/home/dev/app1"})
		if err != nil {
			b.Fatal(err)
		}
		u := ScriptUses(script, "/home/dev/app1", "")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if refs := r.Check(u); refs != nil {
					b.Fatal(refs)
				}
			}
		})
	}
}

// BenchmarkBulk is "check command --jsonl"; it reports lines per second of one
// core.
func BenchmarkBulk(b *testing.B) {
	var in bytes.Buffer
	const copies = 100
	for range copies {
		for _, line := range typicalLines {
			fmt.Fprintf(&in, `{"id":"x","command":%q,"cwd":"/home/dev/app","settings":{"deniedCommands":["rm"],"deniedPaths":["/etc"]}}`+"\n", line)
		}
	}
	lines := 0
	for b.Loop() {
		if err := CheckCommandLines(bytes.NewReader(in.Bytes()), io.Discard); err != nil {
			b.Fatal(err)
		}
		lines += copies * len(typicalLines)
	}
	b.ReportMetric(float64(lines)/b.Elapsed().Seconds(), "lines/s")
}

// BenchmarkGrowth parses and checks longer and longer scripts.
func BenchmarkGrowth(b *testing.B) {
	r := NewRules(Settings{DeniedCommands: []string{"rm"}})
	for _, kib := range []int{1, 4, 16, 64} {
		text := bytes.Repeat([]byte("go test ./pkg | grep -v ok > out/log\n"), kib<<10/37-1)
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.JudgeCommand(string(text), "/home/dev/app", "/home/dev")
			}
		})
	}
}

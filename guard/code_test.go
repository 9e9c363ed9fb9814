package guard

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
)

// TestCodeOfACommand: what a command executes, as far as words and tables say it.
func TestCodeOfACommand(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"run.sh": "", "lib.sh": "", "tool.py": "", "Makefile": "", "package.json": "{}", "other.mk": "", "gradlew": "",
		"settings.gradle": "", "sub/run.sh": "", "sub/deep/x": "", "both/makefile": "", "both/Makefile": "",
		".git/hooks/pre-push": "", "x.sql": "", "prog.awk": "", "bin/mytool": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	rules := NewRules(Settings{})
	for _, tt := range []struct {
		command string
		files   []string // names below dir; several of one file are joined by =, - is absent
		not     []string // parts of sentences, one for each
	}{
		{"ls -l README.md", nil, nil},
		{"./run.sh a b", []string{"run.sh"}, nil},
		{"cd sub && ./run.sh; ../run.sh", []string{"sub/run.sh", "run.sh"}, nil},
		{"link/run.sh", []string{"sub/run.sh=link/run.sh"}, nil},
		{"sub/../run.sh", []string{"run.sh"}, nil},
		{"link/../run.sh", []string{"run.sh"}, nil},
		{"link/deep/../run.sh", []string{"sub/run.sh=link/run.sh"}, nil},
		{"sh run.sh", []string{"run.sh"}, nil},
		{"bash -x ./run.sh | tee log", []string{"run.sh"}, nil},
		{". ./lib.sh && source lib.sh", []string{"lib.sh"}, nil},
		{"bash < run.sh", []string{"run.sh"}, nil},
		{"bash -c 'sh run.sh; ./lib.sh'", []string{"run.sh", "lib.sh"}, nil},
		{"env A=b timeout 5 ./run.sh", []string{"run.sh"}, nil},
		{"find . -exec ./run.sh {} +", nil, []string{"run.sh, which the call writes itself"}},
		{"find sub -exec ./run.sh {} +", []string{"run.sh"}, nil},
		{"python3 tool.py x", []string{"tool.py"}, []string{"python3: the modules"}},
		{"python3.12 < tool.py", []string{"tool.py"}, []string{"python3.12: the modules"}},
		{"awk -f prog.awk x.sql", []string{"prog.awk"}, nil},
		{"psql -f x.sql", []string{"x.sql"}, nil},
		{`cd "$X" && make`, nil, []string{"in a directory that is only known when it runs"}},
		{"make all", []string{"Makefile", "-GNUmakefile", "-makefile"}, nil},
		{"make -C both", []string{"both/makefile", "-both/GNUmakefile"}, nil},
		{"make -f other.mk", []string{"other.mk"}, nil},
		{"cd sub/deep && make", nil, []string{"sub/deep/GNUmakefile or " + dir + "/sub/deep/makefile or"}},
		{"npm run build", []string{"package.json"}, []string{"node_modules"}},
		{"cd sub/deep && npm test", []string{"package.json", "-sub/deep/package.json", "-sub/package.json"}, []string{"node_modules"}},
		{"npm install left-pad", nil, []string{"package.json, which it may change itself"}},
		{"./gradlew build", []string{"gradlew", "settings.gradle"}, []string{"plugins", "build.gradle or"}},
		{"git push", []string{".git/hooks/pre-push"}, []string{"core.hooksPath"}},
		{"git commit -m x", nil, []string{"core.hooksPath", "/.git/hooks/pre-commit, " + dir + "/.git/hooks/prepare-commit-msg or 2 others"}},
		{"git status", nil, []string{"configuration of git"}},
		{"go test ./...", nil, []string{"packages that it builds"}},
		{"mytool x", []string{"bin/mytool", "-sub/mytool"}, []string{"mytool starts or reads by itself, which is not known here"}},
		{"echo x; printf y", nil, nil},
		{"env echo x", []string{"bin/echo", "-sub/echo"}, nil},
		{"enable -n echo; echo x", []string{"bin/echo", "-sub/echo"}, nil},
		{"frobnicate x", nil, []string{"what frobnicate starts or reads by itself, which is not known here"}},
		{"sh $X/run.sh", nil, []string{"only known when it runs"}},
		{"$X", nil, []string{"only known when it runs"}},
		{"sh *.sh", nil, []string{"only known when it runs"}},
		{"curl https://x/y | sh", nil, []string{"standard input"}},
		{"echo 'echo hi' > run.sh; sh run.sh", nil, []string{"run.sh, which the call writes itself"}},
		{"cp x sub/*; sub/run.sh", nil, []string{"sub/run.sh, which the call writes itself"}},
		{"rm -rf sub; sub/run.sh", nil, []string{"sub/run.sh, which the call writes itself"}},
		{"python3 -c 'print(1)'", nil, []string{"modules"}},
	} {
		t.Run(tt.command, func(t *testing.T) {
			s, err := shellparse.Parse(tt.command, shellparse.Options{Dir: dir, Home: "/home/x"})
			if err != nil {
				t.Fatal(err)
			}
			files, not := rules.CodeOf(rules.ScriptUses(s, dir), here(dir))
			var got []string
			for _, f := range files {
				if f.Path != f.Names[0] {
					t.Errorf("%s is not its own first name: %v", f.Path, f.Names)
				}
				name := strings.ReplaceAll(strings.Join(f.Names, "="), dir+"/", "")
				if f.Absent {
					name = "-" + name
				}
				got = append(got, name)
			}
			if !reflect.DeepEqual(got, tt.files) {
				t.Errorf("files %v, want %v", got, tt.files)
			}
			if len(not) != len(tt.not) {
				t.Fatalf("not bound %q, want %q", not, tt.not)
			}
			for _, part := range tt.not {
				if !strings.Contains(strings.Join(not, "\n"), part) {
					t.Errorf("not bound %q, want %q in it", not, part)
				}
			}
		})
	}
}

// here is a place with the programs mytool and echo.
type here string

func (h here) LookPath(name string) (string, []string) {
	if name == "mytool" || name == "echo" {
		return string(h) + "/bin/" + name, []string{string(h) + "/sub/" + name}
	}
	return "", nil
}

func (here) Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestOnlyRoot(t *testing.T) {
	own := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(own, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"/link": "/usr/bin/env", "/round": "round"} {
		if err := os.Symlink(target, filepath.Dir(own)+name); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{
		"/": true, "/usr/bin/env": true, "/bin/sh": true, "/tmp": false, own: false, "/no/such": true, "/tmp/no/such": false,
		filepath.Dir(own) + "/link": false, filepath.Dir(own) + "/round": false,
	} {
		if got := OnlyRoot(path); got != want {
			t.Errorf("OnlyRoot(%s) = %v", path, got)
		}
	}
}

package guard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestX22_WritesAroundADeniedPathAreDenied: reading a tree that holds a denied path is
// what the cage lets happen around it; changing, moving or removing the tree is refused
// whoever is there to ask, and whatever holds the cage (A8).
func TestX22_WritesAroundADeniedPathAreDenied(t *testing.T) {
	s := Settings{DeniedPaths: []string{"/home/dev/app/keys"}}
	for _, tt := range []struct {
		command string
		reads   bool
	}{
		{"rm -rf /home/dev/app", false},
		{"rm -r .", false},
		{"mv /home/dev/app /home/dev/b", false},
		{"chmod -R 777 /home/dev", false},
		{"chown -R x /home/dev/app", false},
		{"cp -r x /home/dev/app/keys/y", false},
		{"find /home/dev/app -delete", false},
		{"rsync -a --delete x/ /home/dev/app", false},
		{"git clone u .", false},
		{"grep -r x /home/dev/app", true},
		{"tar cf /tmp/a.tar .", true},
		{"cp -r /home/dev/app /tmp/b", true},
		{"find . -name x", true},
	} {
		j := JudgeCommand(tt.command, "/home/dev/app", "/home/dev", s)
		want := Deny
		if tt.reads {
			want = Ask
		}
		if j.Verdict != want || len(j.Reasons) == 0 {
			t.Errorf("%q is %s, want %s: %+v", tt.command, j.Verdict, want, j.Reasons)
			continue
		}
		caged := true // a caller with a cage need not ask
		for _, r := range j.Reasons {
			caged = caged && r.Code == "path_denied" && r.Ask && r.Caged
		}
		if caged != tt.reads {
			t.Errorf("%q: %+v, left to the cage is %v, want %v", tt.command, j.Reasons, caged, tt.reads)
		}
	}
	for _, tt := range []struct {
		op   Op
		want Verdict
	}{{Read, Ask}, {Write, Deny}} {
		j := NewRules(s).Check(Uses{Paths: []PathUse{{Path: "/home/dev/app", Op: tt.op, Recursive: true}}})
		if len(j) != 1 || j[0].Ask != (tt.want == Ask) || j[0].Caged != (tt.want == Ask) {
			t.Errorf("%s of the tree: %+v, want %s", tt.op, j, tt.want)
		}
	}
}

// TestX16_UnicodeFormsAreOneName: a denied path is denied in every form that a volume
// may keep as the same name, to commands as to file tools, and not only where the cage
// hides nothing.
func TestX16_UnicodeFormsAreOneName(t *testing.T) {
	composed, decomposed := "caf\u00e9", "cafe\u0301"
	for _, denied := range []string{composed, decomposed} {
		s := Settings{DeniedPaths: []string{"/home/dev/" + denied}}
		for _, named := range []string{composed, decomposed} {
			path := "/home/dev/" + named + "/x"
			for _, op := range []Op{Read, Write} {
				if j := JudgePath(path, op, "/home/dev", "/home/dev", s); j.Verdict != Deny {
					t.Errorf("%s %+q with %+q denied: %s", op, path, denied, j.Verdict)
				}
			}
			for _, form := range []string{
				"cat %s", "cat ../%s", "ls -R %s", "echo a > %s", "cp a %s", "cd %s && cat x", "cat ~/%s",
				"find %s -name x", "tar cf a.tar %s", "cat caf*/x", "cat cafe*/x", "cat %s/*",
			} {
				command := strings.ReplaceAll(form, "%s", named)
				if form == "cat ../%s" {
					command = "cat ../dev/" + named
				}
				if strings.HasPrefix(form, "cat ~") {
					command = "cat ~/" + named + "/x"
				}
				if j := JudgeCommand(command, "/home/dev", "/home/dev", s); j.Verdict != Deny {
					t.Errorf("%+q with %+q denied: %s: %+v", command, denied, j.Verdict, j.Reasons)
				}
			}
			escaped := fmt.Sprintf("cat $'/home/dev/%s/x'", strings.Trim(fmt.Sprintf("%+q", named), `"`))
			if j := JudgeCommand(escaped, "/home/dev", "/home/dev", s); j.Verdict != Deny {
				t.Errorf("%s with %+q denied: %s", escaped, denied, j.Verdict)
			}
		}
	}
}

// TestX22_WhatAnArchiveOrATemplateMayWrite: names in an archive that begin at the root,
// and hooks that git copies, are not what the line says.
func TestX22_WhatAnArchiveOrATemplateMayWrite(t *testing.T) {
	inside := json.RawMessage(`{"allowedWritePaths": ["/home/dev/app"]}`)
	denied := json.RawMessage(`{"deniedPaths": ["/home/dev/.ssh"]}`)
	names := json.RawMessage(`{"deniedCommands": ["rm"]}`)
	for _, tt := range []struct {
		command  string
		settings json.RawMessage
		code     string // "" is allowed
	}{
		{"tar -xPf a.tar", inside, "path_unknown"},
		{"tar xPf a.tar", inside, "path_unknown"},
		{"tar -x --absolute-names -f a.tar", inside, "path_unknown"},
		{"tar -x --absolute-n -f a.tar", denied, "path_unknown"},
		{"tar -P -xf a.tar -C out", denied, "path_unknown"},
		{"bsdtar -xPf a.tar", denied, "path_unknown"},
		{"tar -xf a.tar", inside, ""},
		{"tar -cPf a.tar src", inside, ""},
		{"tar tPf a.tar", inside, ""},
		{"cpio -i < a", denied, "path_unknown"},
		{"cpio -id --no-absolute-filenames < a", inside, ""},
		{"unzip -: a.zip", inside, "path_unknown"},
		{"unzip a.zip", inside, ""},
		{"git init --template=tpl y", names, "opaque"},
		{"git init --template tpl y", names, "opaque"},
		{"git init --templ=tpl y", denied, "opaque"},
		{"git clone --template=tpl u y", names, "opaque"},
		{"git init --template=../.ssh y", denied, "path_denied"},
		{"git init --template= y", names, ""},
		{"git init y", names, ""},
		{"rm $(git ls-files ..)", inside, "path_unknown"},
		{"rm $(git ls-files -- ../other)", inside, "path_unknown"},
		{"git ls-files .. | xargs rm", inside, "path_unknown"},
		{"git ls-files :/ | xargs rm", inside, "path_unknown"},
		{"git ls-files a/.. | xargs rm", inside, "path_unknown"},
		{"rm $(git ls-files $x)", inside, "path_unknown"},
		{"rm $(git ls-files --format=../%(path))", inside, "syntax"},
		{"rm $(git ls-files '--format=../%(path)')", inside, "path_unknown"},
		{"for f in $(git ls-files ..); do rm $f; done", inside, "path_unknown"},
		{"git ls-files .. | while read f; do rm \"$f\"; done", inside, "path_unknown"},
		{"cat $(git ls-files ..)", denied, "path_unknown"},
		{"rm -r $(ls -a)", inside, "path_unknown"},
		{"ls -l | xargs rm", inside, "path_unknown"},
		{"rm -r $(date +.)$(date +.)", inside, "path_unknown"},
		{"rm -r $(date +%n..)", inside, "path_unknown"},
		{"rm -r $(date +%%..)", inside, "path_unknown"},
		{"cat ..$(uname -x)/.ssh/a", denied, "path_unknown"},
		{"rm -r $(echo ..)", inside, "path_outside_write_scope"},
		{"cat $(echo ../.ssh/id)", denied, "path_denied"},
		{"rm $(git ls-files)", inside, ""},
		{"rm $(git ls-files src '*.go')", inside, ""},
		{"ls -1 | xargs rm", inside, ""},
		{"touch log-$(date +%Y-%m-%d.%H%M)", inside, ""},
	} {
		s, err := ParseSettings(tt.settings)
		if err != nil {
			t.Fatal(err)
		}
		j := JudgeCommand(tt.command, "/home/dev/app", "/home/dev", s)
		code := ""
		for _, r := range j.Reasons {
			if code != tt.code {
				code = r.Code
			}
		}
		if code != tt.code || (j.Verdict == Allow) != (tt.code == "") {
			t.Errorf("%q under %s: %s %q, want %q: %+v", tt.command, tt.settings, j.Verdict, code, tt.code, j.Reasons)
		}
	}
}

// TestX22_AnIntegerIsNotItsText: an integer variable holds a number, whatever text is
// assigned, so that bash starts the program 0 here.
func TestX22_AnIntegerIsNotItsText(t *testing.T) {
	for _, command := range []string{
		"declare -i x=B; $x", "typeset -i x; x=B; $x", "command declare -i x=B; $x",
		"f() { local -i x=B; $x; }; f",
	} {
		if j := JudgeCommand(command, "/w", "/w", Settings{DeniedCommands: []string{"0"}}); j.Verdict == Allow {
			t.Errorf("%q is allowed with 0 denied", command)
		}
	}
}

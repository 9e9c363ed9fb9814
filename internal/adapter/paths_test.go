package adapter

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/clients"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// pathFields are the arguments of all clients that name files: those of every tool that is
// judged as ours. Commands are left out: the shell parser reads their words.
func pathFields(t testing.TB) (out [][3]string) {
	for _, c := range clients.All() {
		for _, tl := range c.Tools {
			if tl.Act != clients.As {
				continue
			}
			n := 0
			for _, f := range tl.Fields {
				if f.Dir || f.Ours != "" && namesFile(tl.Ours, f.Ours) {
					out, n = append(out, [3]string{c.Name, tl.Name, f.Name}), n+1
				}
				if f.Patch {
					n++ // see TestFilesOfPatchesAreAsWritten
				}
			}
			if n == 0 && tl.Ours != "Bash" {
				t.Errorf("%s: %s has no argument that names a file", c.Name, tl.Name)
			}
		}
	}
	if len(out) < 25 {
		t.Errorf("only %d arguments name files: %v", len(out), out)
	}
	return out
}

// never fails unless the call is denied or asked, without a question to the daemon.
func never(t interface{ Errorf(string, ...any) }, agent, name, input string) {
	d := &decider{verdict: tool.Allow, sessions: map[string]bool{}}
	var out strings.Builder
	err := Answer(context.Background(), d, strings.NewReader(call(agent, name, input)), &out, Options{Agent: agent, Exe: testExe})
	denied := strings.Contains(out.String(), `"deny"`) && strings.Contains(out.String(), "What to do: ")
	if err != nil || !denied || len(d.asked) > 0 {
		t.Errorf("%s %s %s: got %q, %v, want a denial that says what to do", agent, name, input, out.String(), err)
	}
}

func TestPathsThatClientsReadOtherwiseAreDenied(t *testing.T) {
	for _, f := range pathFields(t) {
		for _, path := range []string{
			" /etc/shadow", "/etc/shadow\n", "\u00a0/etc/shadow", "\ufeff/etc/shadow", "/etc/shadow\u3000", "\t.envrc",
			"~/.ssh/id_rsa", "~", "~root/x", "/src/e\u0301", "@.envrc",
			"@/etc/shadow", "x%2f..%2f..%2fetc/shadow", "/%65tc/shadow",
		} {
			never(t, f[0], f[1], `{"`+f[2]+`":`+string(jsonText(path))+`}`)
		}
	}
	for _, path := range []string{
		"/src/a b.txt", "./@types/x.ts", "é/100%.txt", "a~", ".env", "./~x", "src/**/*.{ts,tsx}", "",
	} {
		if err := plainPath("path", path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// White space around a path is denied, whatever it is, and wherever it stands.
func TestWhiteSpaceAroundPathsIsNeverAllowed(t *testing.T) {
	fields := pathFields(t)
	// What String.prototype.trim of JavaScript takes away.
	js := []rune("\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003" +
		"\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff")
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(fields).Draw(t, "field")
		path := rapid.SampledFrom([]string{"/root/.ssh/id_rsa", "/etc/shadow", ".env", "../x", ""}).Draw(t, "path")
		space := rapid.StringOfN(rapid.SampledFrom(js), 1, 4, -1)
		path = space.Draw(t, "before") + path
		if rapid.Bool().Draw(t, "both") {
			path += space.Draw(t, "after")
		}
		never(t, f[0], f[1], `{"`+f[2]+`":`+string(jsonText(path))+`}`)
	})
}

func TestFilesOfPatchesAreAsWritten(t *testing.T) {
	for _, path := range []string{" .envrc", "\u00a0/etc/x", "~/x", "@x", "e\u0301"} {
		for _, verb := range []string{"Add File", "Update File", "Delete File", "Move to"} {
			patch := "*** Begin Patch\n*** " + verb + ": " + path + "\n+x\n*** End Patch\n"
			never(t, clients.Codex, "apply_patch", `{"command":`+string(jsonText(patch))+`}`)
		}
	}
}

// Gemini looks in the whole workspace for a file that it is to change and that is not there.
func TestGeminiChangesNoOtherFileOfThatName(t *testing.T) {
	never(t, clients.Gemini, "replace", `{"file_path":"no-such.txt","old_string":"a","new_string":"b"}`)
}

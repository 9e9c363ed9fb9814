package guard

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/shellparse"
)

// What a client reads in a file is read here as well: of the workspace, and what that names.
func TestStatementsInFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.sql"), "-- all of them\nDROP TABLE users;\n")
	write(t, filepath.Join(dir, "select.sql"), "select 'drop table a';\n")
	write(t, filepath.Join(dir, "reset.sql"), "select 1;\n")
	write(t, filepath.Join(dir, "main.sql"), "begin;\n\\i a.sql\n")
	write(t, filepath.Join(dir, "loop.sql"), "\\i loop.sql\n")
	write(t, filepath.Join(dir, "wipe.js"), "db.dropDatabase()\n")
	write(t, filepath.Join(dir, "keys"), "GET a\nFLUSHALL\n")
	write(t, filepath.Join(dir, "large.sql"), strings.Repeat(" ", 4<<20+1))
	write(t, filepath.Join(dir, "longest.sql"), strings.Repeat(" ", 4<<20))
	for line, want := range map[string]int{
		"psql -f a.sql": 1, "psql -d x --file=a.sql": 1, "psql < a.sql": 1, "cat a.sql | psql": 1, "psql -fa.sql": 1,
		"mysql -e 'source a.sql'": 1, `psql -c '\i a.sql'`: 1, "sqlite3 x.db '.read a.sql'": 1, "psql -f main.sql": 1,
		"clickhouse-client --queries-file a.sql": 1, "mongosh x wipe.js": 1, "redis-cli < keys": 1,
		"docker exec -i db psql < a.sql": 1, "cat a.sql | kubectl exec -i db -- psql": 1, "cd sub; psql -f ../a.sql": 1,
		"python manage.py dbshell < a.sql": 1, "psql -f large.sql": 1, "psql -f longest.sql": 0, `mysql -e "$(cat a.sql)"`: 1, `psql -c "$(< a.sql)"`: 1, `mongosh --eval "$(cat wipe.js)"`: 1,
		`mysql -e "$(cat select.sql)"`: 0, "psql -f drop_all.sql": 1,
		"psql -f select.sql": 0, "psql < select.sql": 0, "psql -f reset.sql": 0, "psql -f missing.sql": 0, "psql -f loop.sql": 0,
		"pg_dump x > a.sql": 0, "cat a.sql": 0, "psql -o a.sql -c 'select 1'": 0, "wc -l < a.sql": 0, "psql -f .": 0,
	} {
		s, err := shellparse.Parse(line, shellparse.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if u := (*Rules)(nil).ScriptUses(s, dir); len(u.Acts) != want {
			t.Errorf("%s: %v, want %d", line, u.Acts, want)
		}
	}
}

// TestOneFileMoreThanAreRead may destroy anything, on the command line and in a file that is read.
func TestOneFileMoreThanAreRead(t *testing.T) {
	dir := t.TempDir()
	var words, lines string
	for i := range maxFed {
		name := fmt.Sprintf("%d.sql", i)
		write(t, filepath.Join(dir, name), "select 1;\n")
		words += " -f " + name
		if i > 0 { // all.sql is one of them
			lines += "\\i " + name + "\n"
		}
	}
	write(t, filepath.Join(dir, "all.sql"), lines)
	write(t, filepath.Join(dir, "more.sql"), lines+"\\i 0.sql\n")
	write(t, filepath.Join(dir, "again.sql"), lines+"\\i 1.sql\n")
	for line, want := range map[string]int{
		"psql" + words: 0, "psql" + words + " -f 0.sql": 1, "psql" + words + " -f a.sql -f b.sql": 1,
		"psql -f all.sql": 0, "psql -f more.sql": 1, "psql -f again.sql": 0,
	} {
		s, err := shellparse.Parse(line, shellparse.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		acts := (*Rules)(nil).ScriptUses(s, dir).Acts
		if got := len(acts) + len(s.Commands[0].Effects.Acts); got != want {
			t.Errorf("%s: %d acts that destroy, want %d: %v %v", line, got, want, acts, s.Commands[0].Effects.Acts)
		}
	}
}

// A file in a denied place is not read, so that no answer says what stands there.
func TestStatementsInDeniedPlacesAreNotRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.sql"), "DROP TABLE users;\n")
	s, err := shellparse.Parse("psql -f a.sql", shellparse.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	r, bad := prepare(Settings{DeniedPaths: []string{dir}})
	if bad != nil {
		t.Fatal(bad)
	}
	if u := r.ScriptUses(s, dir); len(u.Acts) != 0 {
		t.Errorf("%v", u.Acts)
	}
}

// What a here-document expands is text before the shell that it feeds reads it: it may hold any command.
func TestAHereDocumentIsExpandedBeforeAShellReadsIt(t *testing.T) {
	rules := NewRules(Settings{DeniedCommands: []string{"rm"}})
	for line, want := range map[string]Verdict{
		"printf ';rm y' > f; bash <<A\necho $(cat f)\nA":               Ask,
		"x=$(printf ';rm y'); bash <<A\necho $x\nA":                    Ask,
		"printf ';rm y' > f; read -r x < f; sh -s <<A\necho \"$x\"\nA": Ask,
		"x=$(printf ';rm y'); bash <<'A'\necho $x\nA":                  Allow,
		"x=y; bash <<A\necho $x\nA":                                    Allow,
		"x=rm; bash <<A\n$x y\nA":                                      Deny,
	} {
		if j := rules.JudgeCommand(line, "/w", "/w"); j.Verdict != want {
			t.Errorf("%q is %s, want %s: %+v", line, j.Verdict, want, j.Reasons)
		}
	}
}

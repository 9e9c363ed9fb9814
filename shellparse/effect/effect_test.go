package effect

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

func TestTheTablesAreRead(t *testing.T) {
	load()
	if n := len(all.tools); n < 700 {
		t.Errorf("%d programs are known, want 700", n)
	}
	for name, tool := range all.tools {
		if tool.source == "" && len(tool.lines) > 0 {
			t.Errorf("%s has no source", name)
		}
		for _, do := range tool.do {
			what, of, _ := strings.Cut(do, " ")
			if !slices.Contains([]string{"git", "delete", "sql", "store", "code", "http", "input", "jar", "console"}, what) {
				t.Errorf("%s: nothing does %q", name, do)
			}
			if what == "code" && all.code[of] == nil {
				t.Errorf("%s: no code is known of %q", name, of)
			}
		}
		if tool.other != "" && !slices.Contains([]string{Changes, Destroys, shows}, tool.other) {
			t.Errorf("%s: %q is nothing that a verb does", name, tool.other)
		}
	}
}

func TestATableThatIsWrongIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"x\n\tdestroys rm\n\n":                  "no source",
		"x\n\tsource u\n\tdestroys %none\n":     "no class",
		"x\n\tsource u\n\tdestroys !rm\n":       "only options",
		"x\n\tsource u\n\tremoves rm\n":         "no fact",
		"\tsource u\n":                          "belongs to no program",
		"x y\n\tsource u\n":                     "no name",
		"x\n\tsource u\n\n" + "x\n\tsource u\n": "another entry",
		"x\n\tsource u\ny\n\tsource u\n":        "without an empty line",
		"x\n\tsource\n":                         "says nothing",
	} {
		saved := all.tools
		all.tools = map[string]*tool{}
		err := readTable(text)
		all.tools = saved
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := readOthers(fstest.MapFS{"d/code.txt": {Data: []byte("python\n")}}, "d"); err == nil {
		t.Error("a line of code.txt that says nothing is read")
	}
	all.once.Do(func() {})
}

func TestStatementsThatDestroy(t *testing.T) {
	for text, want := range map[string]string{
		"drop table a":                                "drop table a",
		"DROP TABLE IF EXISTS a":                      "drop table a",
		"select 1; truncate table a":                  "truncate a",
		"delete from a":                               "delete a",
		"delete from a where id = 1":                  "",
		"delete from a where 1 = 1":                   "delete a",
		"delete from a where true":                    "delete a",
		"delete from a where x = 1 or 'a' = 'a'":      "delete a",
		"update a set x = 1":                          "update a",
		"update a set x = 1 where id = 2":             "",
		"alter table a drop column b":                 "alter table drop a",
		"alter table a delete where 1":                "alter table rows a",
		"-- drop table a\nselect 1":                   "",
		"select 'drop table a'":                       "",
		"select \"a;drop table b\"":                   "",
		"/* drop table a */ select 1":                 "",
		"/*!50000 drop table a */":                    "drop table a",
		"with x as (delete from a returning *) table": "delete a",
		"explain select 1":                            "",
		"explain analyze delete from a":               "delete a",
		"do $$ begin drop table a; end $$":            "drop table a",
		"create or replace table a as select 1":       "create or replace table a",
		"create table a (x int)":                      "",
		"insert into a values ('drop table b')":       "",
		"grant all on a to b":                         "grant all",
		"dropdead":                                    "",
		"select drop from a":                          "",
	} {
		var got []string
		for _, s := range Statements(text) {
			got = append(got, strings.TrimSpace(s.Verb+" "+s.Target))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// FuzzWords gives the words of a command to every tool: none panics, and quotes or comments around
// nothing change nothing.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"push\n-f", "-c\ndrop table a", "s3\nrm\ns3://b", "-e\nos.remove('a')", "/*!\n$$\n'"} {
		f.Add("git", s)
		f.Add("psql", s)
		f.Add("aws", s)
		f.Add("python3", s)
	}
	f.Fuzz(func(_ *testing.T, name, text string) {
		argv := []program.Word{program.Literal(name, program.Word{}.At)}
		for _, w := range strings.Split(text, "\n") {
			argv = append(argv, program.Literal(w, program.Word{}.At))
		}
		Of(&program.Call{Name: name, Argv: argv}, nil)
		Statements(text)
	})
}

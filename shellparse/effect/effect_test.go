package effect

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

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
		for _, s := range Statements(text, "") {
			got = append(got, strings.TrimSpace(s.Verb+" "+s.Target))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestStatementsAreReadAsTheClientReadsThem(t *testing.T) {
	for _, tt := range []struct{ client, text, want string }{
		{"psql", "select 'drop table x'", ""},
		{"psql", "-- drop table x\nselect 1", ""},
		{"psql", "select 1 --1; drop table x", ""},
		{"mysql", "select 1--1; drop table x", "drop table x"},
		{"mysql", "select 1 -- 1; drop table x", ""},
		{"psql", "DROP/**/TABLE x", "drop table x"},
		{"mysql", "/*!50000 DROP TABLE x */", "drop table x"},
		{"mysql", "/*M!100100 DROP TABLE x */", "drop table x"},
		{"psql", "/*!50000 DROP TABLE x */ select 1", ""},
		{"mysql", "select 1 # ; drop table x", ""},
		{"mysql", "select 1; # a\ndrop table x", "drop table x"},
		{"psql", "select 1 # 2; drop table x", "drop table x"},
		{"psql", "/* /* */ drop table x; */ select 1", ""},
		{"mysql", "/* /* */ drop table x", "drop table x"},
		{"sqlite3", "/* drop table x", ""},
		{"psql", `select '\'; drop table x`, "drop table x"},
		{"mysql", `select '\'; drop table x; --'`, ""},
		{"psql", `select E'\'; drop table x; --'`, ""},
		{"psql", "select 'it''s; drop table x'", ""},
		{"psql", `select ";drop table x"`, ""},
		{"mysql", "select `;drop table x`", ""},
		{"mysql", "drop`x`", "drop"},
		{"sqlcmd", "select [; drop table x] from t", ""},
		{"psql", "select a[1]; drop table x", "drop table x"},
		{"psql", "select $q$; drop table x $q$", ""},
		{"psql", "select $q$ $$ $q$; drop table x", "drop table x"},
		{"psql", "select $1; drop table x", "drop table x"},
		{"psql", "DO $$ BEGIN EXECUTE 'drop table x'; END $$", "drop table x"},
		{"psql", "DO $x$ BEGIN DELETE FROM x; END $x$", "delete x"},
		{"psql", "DO $$ BEGIN EXECUTE format('drop table %I', t); END $$", "drop table %"},
		{"psql", "DO $$ BEGIN EXECUTE 'drop' || ' table x'; END $$", "drop table x"},
		{"psql", "CREATE FUNCTION f() RETURNS void AS $$ TRUNCATE x $$ LANGUAGE sql", "truncate x"},
		{"psql", "PREPARE p AS DELETE FROM x", "delete x"},
		{"mysql", "SET @s = 'drop table x'; PREPARE p FROM @s; EXECUTE p", "drop table x"},
		{"mysql", "SET @s = 'drop table x'", ""},
		{"sqlcmd", "EXEC sp_executesql N'drop table x'", "drop table x"},
		{"sqlcmd", "EXEC xp_cmdshell 'dir'", "starts xp_cmdshell"},
		{"sqlcmd", "select 1 drop table x", "drop table x"},
		{"sqlcmd", "if object_id('x') is not null drop table x", "drop table x"},
		{"sqlcmd", "select 1\nGO\ndrop table x\nGO", "drop table x"},
		{"mysql", "DELIMITER //\nselect 1//\ndrop table x//", "drop table x"},
		{"psql", "DELETE FROM x", "delete x"},
		{"psql", "DELETE FROM x WHERE id = 1", ""},
		{"psql", "DELETE FROM x WHERE (1 = 1)", "delete x"},
		{"psql", "UPDATE x SET a = 1", "update x"},
		{"psql", "UPDATE x SET a = (SELECT b FROM c WHERE c.id = 1)", "update x"},
		{"psql", "UPDATE x SET a = (SELECT b FROM c) WHERE id = 1", ""},
		{"psql", "TRUNCATE x", "truncate x"},
		{"psql", "ALTER TABLE x DROP COLUMN y", "alter table drop x"},
		{"psql", "WITH d AS (DELETE FROM x RETURNING *) SELECT * FROM d WHERE id = 1", "delete x"},
		{"psql", "WITH d AS MATERIALIZED (DELETE FROM x RETURNING *) SELECT * FROM d", "delete x"},
		{"psql", "WITH d AS (SELECT 1) DELETE FROM x", "delete x"},
		{"psql", "WITH d AS (SELECT 1) DELETE FROM x WHERE id IN (SELECT * FROM d)", ""},
		{"psql", "select * from t where action = (delete)", ""},
		{"psql", "EXPLAIN DELETE FROM x", ""},
		{"psql", "EXPLAIN ANALYZE DELETE FROM x", "delete x"},
		{"psql", "EXPLAIN (ANALYZE, BUFFERS) DELETE FROM x", "delete x"},
		{"psql", "EXPLAIN (ANALYZE false) DELETE FROM x", ""},
		{"sqlite3", "EXPLAIN QUERY PLAN DELETE FROM x", ""},
		{"psql", `\! rm -rf x`, `starts \!`},
		{"psql", `select 1 \gexec`, "gexec"},
		{"psql", `\copy t to program 'rm x'`, `starts \copy`},
		{"psql", `\copy t to 'x.csv' csv`, ""},
		{"psql", `\o |rm x`, `starts \o`},
		{"psql", `\x \! rm x`, `starts \!`},
		{"psql", "COPY t TO PROGRAM 'rm x'", "starts copy program"},
		{"psql", "COPY t TO STDOUT", ""},
		{"sqlite3", ".shell rm x", "starts .shell"},
		{"sqlite3", "select 1;\n.sys rm x", "starts .sys"},
		{"sqlite3", ".schema", ""},
		{"sqlite3", `.import "|rm x" t`, "starts .import"},
		{"mysql", "system rm x", "starts system"},
		{"mysql", `\! rm x`, `starts \!`},
		{"trino", `select 'a\'; drop table x`, "drop table x"},
		{"mysql", "RESET MASTER", "reset master"},
		{"mysql", "RESET QUERY CACHE", ""},
		{"mysql", "PURGE BINARY LOGS TO 'x'", "purge binary LOGS"},
		{"mysql", "SHUTDOWN", "shutdown"},
		{"mysql", "KILL 5", "kill 5"},
		{"mysql", "FLUSH PRIVILEGES", "flush privileges"},
		{"mysql", "FLUSH TABLES", ""},
		{"mysql", "STOP SLAVE", "stop slave"},
		{"mysql", "CHANGE MASTER TO MASTER_HOST='h'", "change master"},
		{"mysql", "START TRANSACTION", ""},
		{"mysql", "DELETE FROM x LIMIT 5", ""},
		{"mysql", "DELETE FROM x WHERE", "delete x"},
		{"mysql", `pager rm x`, "starts pager"},
		{"mysql", `\p`, ""},
		{"psql", "ALTER ROLE x SUPERUSER", "alter role x"},
		{"psql", "CREATE USER x", "create user x"},
		{"psql", "SELECT pg_catalog.pg_terminate_backend(5)", "pg_terminate_backend"},
		{"psql", "DELETE FROM x WHERE true RETURNING id", "delete x"},
		{"psql", "DELETE FROM x USING y WHERE x.id = y.id", ""},
		{"psql", "MERGE INTO x USING y ON x.id = y.id WHEN MATCHED THEN DELETE", "merge delete x"},
		{"psql", "MERGE INTO x USING y ON x.id = y.id WHEN MATCHED THEN DO NOTHING", ""},
		{"sqlite3", "VACUUM INTO 'x'", "vacuum into x"},
		{"sqlite3", "VACUUM", ""},
		{"sqlite3", ".restore x.db", ".restore"},
		{"sqlite3", ".open --new x.db", ".open"},
		{"sqlite3", ".open x.db", ""},
		{"sqlcmd", "RESTORE DATABASE x FROM DISK = 'y'", "restore DATABASE"},
		{"sqlcmd", "EXEC sp_dropuser x", "exec sp_dropuser"},
		{"spark-sql", "INSERT OVERWRITE TABLE x SELECT 1", "insert overwrite x"},
		{"surreal", "REMOVE TABLE x", "remove table x"},
		{"surreal", "REMOVE FIELD x ON y", ""},
	} {
		var got []string
		for _, s := range Statements(tt.text, tt.client) {
			if s.Does == starts {
				s.Target, s.Verb = s.Verb, starts
			}
			got = append(got, strings.TrimSpace(s.Verb+" "+s.Target))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %s: %q, want %q", tt.client, tt.text, got, tt.want)
		}
	}
}

// TestLongTextIsReadInItsLength gives texts for which reading one word again for each other one would take minutes.
func TestLongTextIsReadInItsLength(t *testing.T) {
	for _, part := range []string{
		"BEGIN ", "(", "DELETE FROM x ", `\`, "'", "drop table x; ", "$$", "/*", "AS (DELETE FROM x ",
	} {
		for _, client := range []string{"psql", "mysql", "sqlite3", "sqlcmd"} {
			begun := processorTime(t)
			Statements(strings.Repeat(part, 1<<18/len(part)), client)
			if took := processorTime(t) - begun; took > 5*time.Second {
				t.Errorf("%s: %q: %v", client, part, took)
			}
		}
	}
}

// processorTime is what this process has used: other work on the machine does not lengthen it.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
		for _, client := range []string{"", "psql", "mysql", "sqlite3", "duckdb", "sqlcmd"} {
			Statements(text, client)
		}
	})
}

// TestStatementsInStatements: texts are followed to a depth. What lies deeper may destroy anything.
func TestStatementsInStatements(t *testing.T) {
	nested := func(n int) string {
		text := "select 1"
		for i := range n {
			text = fmt.Sprintf("DO $t%[1]d$ BEGIN EXECUTE $e%[1]d$%[2]s$e%[1]d$; END $t%[1]d$", i, text)
		}
		return text
	}
	for n, want := range map[int]int{1: 0, 2: 0, 3: 1, 9: 1} {
		if got := Statements(nested(n), "psql"); min(len(got), 1) != want {
			t.Errorf("%d deep: %v, want %d", n, got, want)
		}
	}
}

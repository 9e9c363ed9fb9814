package vars_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/vars"
)

func TestV34_TenMillionReferences(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("a", "")
	many := 10_000_000
	if slow {
		many = 500_000
	}
	_, err := f.resolve(`{"x":"` + strings.Repeat("$VAR_REF{{a}}", many) + `"}`)
	wantError(t, err, "expansion_too_large", "the arguments hold more than 100000 variable references")
	if v, _ := f.get("a"); v.ReferenceCount != 1 {
		t.Errorf("got %d visits, want the one of this test", v.ReferenceCount)
	}
}

func TestV33_NamesThatNoReferenceCanHold(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for _, name := range []string{"", "a}}b", "a}", "$VAR_REF{{x", "a\nb", "a\x00b", "\xff", strings.Repeat("x", 257)} {
		_, _, err := f.Put(t.Context(), "s", name, vars.Change{Value: ptr("v")}, tool.OriginPerson)
		wantError(t, err, "validation_error", "variable name ")
	}
	for _, name := range []string{
		"Rule/Agent/x", "a.b", "ünï", "a:1", "a:1:2", "a b", "{", "$VAR_REF",
		strings.Repeat("x", 256),
	} {
		f.put(name, "the value of "+name)
		if got, err := f.resolve(`"$VAR_REF{{` + name + `}}"`); err != nil || got != `"the value of `+name+`"` {
			t.Errorf("%q: got %s, %v", name, got, err)
		}
		if got, err := f.resolve(`"$VAR_REF{{` + name + `:4:5}}"`); err != nil || got != `"value"` {
			t.Errorf("a slice of %q: got %s, %v", name, got, err)
		}
	}
}

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	f := newFixture(t, vars.Options{})
	for _, c := range []vars.Change{{Value: ptr("\xff")}, {Value: ptr("v"), Desc: ptr("\xc3")}, {Value: ptr("v"), Tags: &[]string{"\xff"}}} {
		_, _, err := f.Put(t.Context(), "s", "x", c, tool.OriginPerson)
		wantError(t, err, "validation_error", "")
	}
	c := f.remember(tool.Spec{Name: "Bash"}, `{}`, "a\xffb", false) // a program may print anything
	if v, ok := f.get(c.Result.VarResult); !ok || *v.Value != "a\uFFFDb" {
		t.Errorf("got %+v", v)
	}
}

func TestLargeValues(t *testing.T) {
	f := newFixture(t, vars.Options{})
	f.put("ten", strings.Repeat("é", 5<<20)) // 10 MiB
	_, err := f.resolve(`"$VAR_REF{{ten}}"`)
	wantError(t, err, "expansion_too_large", "the arguments are larger than 8388608 bytes after expanding variables")
	if got, err := f.resolve(`"$VAR_REF{{ten:5242879:9}}"`); err != nil || got != `"é"` {
		t.Errorf("got %s, %v, want the last character", got, err)
	}
	if got := f.mustCall("ReadVar", `{"name":"ten","start":5242870,"length":3}`).Text; got != "ééé" {
		t.Errorf("got %q", got)
	}
	_, _, err = f.Put(t.Context(), "s", "much", vars.Change{Value: ptr(strings.Repeat("x", 16<<20+1))}, tool.OriginPerson)
	wantError(t, err, "value_too_large", `the value of "much" has 16777217 bytes, more than 16777216`)
}

// A hundred thousand variables: every answer stays short, and the oldest goes.
func TestAHundredThousandVariables(t *testing.T) {
	many := 100_000
	if slow {
		many = 2000
	}
	f := newFixture(t, vars.Options{Capacity: many})
	f.put("first", "v")
	err := f.db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
			INSERT INTO vars (session, name, type, keep, created, updated, visited, refs, length, authored, origins, hosts, tags,
				descr, folded, large, value) SELECT session, 'v' || i, type, keep, created, updated, visited + i, refs, length, authored, origins,
				hosts, tags, descr, 'v' || i, large, value FROM vars, n WHERE session = $1 AND name = 'first'`, f.session, many-3)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE var_sessions SET total = $2 WHERE session = $1`, f.session, many)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.System = vars.New(f.db, f.o) // what is in the database by now is not what it knew
	f.put("new", "v")
	if _, ok := f.get("first"); ok {
		t.Error("the oldest is still there")
	}
	_, err = f.resolve(`"$VAR_REF{{nope}}"`)
	wantError(t, err, "variable_not_found", "Variable 'nope' not found. Available variables: new, ")
	if msg := fmt.Sprint(err); len(msg) > 1000 || !strings.HasSuffix(msg, "more") {
		t.Errorf("the message has %d characters: %.100s", len(msg), msg)
	}
	out := f.mustCall("ListVars", `{"filter":{"search":"V1"},"pageSize":5}`).Text
	if !strings.HasPrefix(out, map[bool]string{
		false: "11111 variables, page 1/2223\n", true: "1109 variables, page 1/222\n",
	}[slow]) || strings.Count(out, "\n- ") != 5 {
		t.Errorf("got %.200s", out)
	}
}

package effect

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// sql reads every word and the input of a client as SQL: text that is none begins with no
// statement.
func (r *reader) sql() {
	if r.option("--readonly") || r.option("--dry_run") || r.option("--dry-run") || slices.ContainsFunc(r.Argv[1:],
		func(w program.Word) bool { return w.Is("-readonly") }) {
		return
	}
	for _, w := range r.Argv[1:] {
		text := w.Text
		if !w.Known {
			text = w.Skeleton
		}
		if len(text) > 2 && text[0] == '-' {
			_, value, ok := strings.Cut(text, "=")
			if text[1] != '-' && !(ok && strings.IndexByte(text, '=') < 3) {
				value = text[2:]
			}
			text = value
		}
		r.statements(text, w)
	}
	r.statements(r.input(), program.Word{Known: true, At: r.In.At})
	r.sqlFiles()
}

func (r *reader) statements(text string, w program.Word) {
	if !strings.ContainsAny(text, " \t\n.;(/`\"[\\!") && !loneStatement[strings.ToUpper(text)] {
		return
	}
	r.includes(text)
	for _, s := range Statements(text, r.Name) {
		if s.Does == starts {
			r.out.Code = append(r.out.Code, Code{Does: s.Does, Part: s.Verb})
			continue
		}
		r.out.Acts = append(r.out.Acts, Act{Program: r.Name, Verb: s.Verb, Target: s.Target, Does: s.Does})
	}
}

var loneStatement = map[string]bool{"SHUTDOWN": true}

// Statement is one SQL statement that does harm.
type Statement struct{ Verb, Target, Does string }

// starts is what a statement does that starts a program beside the database.
const starts = "starts"

// Statements returns those of a text that destroy data, change who may do what or start programs, as a client of
// this name reads it.
func Statements(text, client string) []Statement {
	var found []Statement
	seen := map[Statement]bool{}
	for _, d := range dialects(client) {
		for _, s := range d.statements(text, 0) {
			if !seen[s] {
				seen[s] = true
				found = append(found, s)
			}
		}
	}
	return found
}

const (
	maxMade = 4   // how deep texts in texts are followed; deeper ones may destroy anything
	maxPart = 300 // lexemes that are read of a statement in another one
)

func (d dialect) statements(text string, depth int) []Statement {
	if depth > maxMade { // nobody has read it
		return []Statement{{"statements in statements", "", Destroys}}
	}
	var found []Statement
	words := d.cut(text)
	made := false // strings of it may be executed
	for len(words) > 0 {
		end := 0
		for end < len(words) && !words[end].is(";") && words[end].kind != '\\' {
			end++
		}
		if end == 0 && words[0].kind == '\\' {
			found = append(found, ofClient(words[0].text)...)
			end = 1
		} else {
			s := words[:end]
			found = append(found, d.parts(s)...)
			made = made || executes(s)
			for _, w := range s {
				// The body of a block, and of a function that may be called. As a value it is a text.
				if w.kind == '$' && (s[0].is("DO") || s[0].is("CREATE") || s[0].is("EXECUTE")) {
					found = append(found, d.statements(w.text, depth+1)...)
				}
			}
			if end < len(words) && words[end].is(";") {
				end++
			}
		}
		words = words[end:]
	}
	if made {
		found = append(found, d.made(text, depth)...)
	}
	return found
}

// made returns the statements in the strings of a text, alone and joined.
func (d dialect) made(text string, depth int) []Statement {
	var found []Statement
	var joined strings.Builder
	for _, w := range d.cut(text) {
		if w.kind == '\'' || w.kind == '$' {
			found = append(found, d.statements(w.text, depth+1)...)
			joined.WriteString(w.text)
		}
	}
	if len(found) == 0 {
		found = d.statements(joined.String(), depth+1)
	}
	return found
}

// executes reports whether a statement executes a text.
func executes(s []lexeme) bool {
	for i, w := range s {
		switch {
		case w.is("EXECUTE") || w.is("EXEC") || w.is("sp_executesql"):
			return true
		case i == 0 && w.is("PREPARE") && slices.ContainsFunc(s, func(w lexeme) bool { return w.is("FROM") }):
			return true
		}
	}
	return false
}

// is reports whether it is this word or mark, and not a quoted one.
func (w lexeme) is(word string) bool { return w.kind == 0 && strings.EqualFold(w.text, word) }

// parts returns the statements in one: behind WITH, in the body of a routine, behind EXPLAIN ANALYZE.
func (d dialect) parts(s []lexeme) []Statement {
	if s = explained(s); len(s) == 0 {
		return nil
	}
	var found []Statement
	for i := range s {
		if i > 0 && !d.begins(s, i) {
			continue
		}
		part := s[i:]
		if i > 0 {
			part = part[:closing(part[:min(maxPart, len(part))])]
		}
		if st, ok := destroying(part); ok {
			found = append(found, st)
			if d.anywhere {
				continue
			}
			break
		}
	}
	return found
}

// explained returns what an EXPLAIN executes: all of it with ANALYZE, else nothing.
func explained(s []lexeme) []lexeme {
	if len(s) == 0 || !s[0].is("EXPLAIN") && !s[0].is("DESCRIBE") && !s[0].is("DESC") {
		return s
	}
	analyze := false
	for i, w := range s {
		if w.is("ANALYZE") || w.is("ANALYSE") {
			off := i+1 < len(s) && (s[i+1].is("false") || s[i+1].is("off") || s[i+1].is("0"))
			analyze = analyze || !off
		}
		for _, verb := range []string{"DELETE", "UPDATE", "INSERT", "MERGE", "WITH", "EXECUTE", "CREATE"} {
			if i > 0 && w.is(verb) {
				if analyze {
					return s[i:]
				}
				return nil
			}
		}
	}
	return nil
}

// closing returns where the bracket ends in which s begins.
func closing(s []lexeme) int {
	depth := 0
	for i, w := range s {
		switch {
		case w.is("("):
			depth++
		case w.is(")"):
			if depth--; depth < 0 {
				return i
			}
		}
	}
	return len(s)
}

// begins reports whether a statement can begin at a place in another one.
func (d dialect) begins(s []lexeme, i int) bool {
	before := s[i-1]
	next := func(words ...string) bool {
		return i+1 < len(s) && slices.ContainsFunc(words, s[i+1].is)
	}
	routine := s[0].is("CREATE") || s[0].is("ALTER") || s[0].is("PREPARE")
	switch {
	case d.anywhere && (s[i].is("DROP") && next("TABLE", "DATABASE", "SCHEMA", "VIEW", "LOGIN", "USER", "PROCEDURE",
		"INDEX") || s[i].is("TRUNCATE") && next("TABLE") || s[i].is("DELETE") && next("FROM")):
		return !s[0].is("ALTER") && !s[0].is("GRANT") && !s[0].is("REVOKE")
	case before.is("("):
		return i > 1 && (s[i-2].is("AS") || s[i-2].is("MATERIALIZED"))
	case before.is(")"):
		return s[0].is("WITH") || routine
	case before.is("AS") || before.is("DO") || before.is("INSTEAD") || before.is("ALSO") || before.is("ROW"):
		return routine || s[0].is("BEGIN")
	}
	return slices.ContainsFunc([]string{"BEGIN", "THEN", "ELSE", "LOOP", "ATOMIC", "IMMEDIATE"}, before.is)
}

// maxCommands is how many commands of a client are read in one line. In a longer one anything may start a program.
const maxCommands = 64

// ofClient returns what the commands of the client in a line do: they start a program, or send what the server
// answers.
func ofClient(line string) []Statement {
	commands := []string{line}
	if line[0] == '\\' {
		commands = strings.SplitN(line[1:], `\`, maxCommands)
		if len(commands) == maxCommands {
			return []Statement{{Verb: `\!`, Does: starts}}
		}
		for i := range commands {
			commands[i] = `\` + commands[i]
		}
	}
	for _, text := range commands {
		word, rest, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(text), "\t", " "), " ")
		word, rest = strings.ToLower(word), strings.ToLower(strings.TrimSpace(rest))
		switch {
		case startsProgram(word, rest):
			return []Statement{{Verb: word, Does: starts}}
		case word == `\gexec`:
			return []Statement{{"gexec", "", Destroys}}
		case word == ".restore" || word == ".open" && strings.Contains(rest, "--new"):
			return []Statement{{word, "", Destroys}}
		}
	}
	return nil
}

// startsProgram reports whether a command of a client starts a program. SQLite takes what .shell begins with for it.
func startsProgram(word, rest string) bool {
	switch {
	case word == "system", strings.HasPrefix(word, `\!`), word[0] == '!', strings.HasPrefix(word, ":!!"),
		len(word) > 2 && (strings.HasPrefix(".shell", word) || strings.HasPrefix(".system", word)):
		return true
	case word == "pager" || word == `\p`:
		return rest != "" && rest[0] != '\\'
	case word == `\copy`:
		return strings.Contains(rest, "program")
	case word[0] == '.', word == `\o`, word == `\out`, word == `\w`, word == `\write`, word == `\g`:
		return strings.HasPrefix(rest, "|") || strings.Contains(rest, " |") || strings.Contains(rest, "'|") ||
			strings.Contains(rest, `"|`)
	}
	return false
}

// destroying looks at the first words of a statement.
func destroying(s []lexeme) (Statement, bool) {
	at := func(i int) string {
		if i < len(s) && s[i].kind == 0 {
			return strings.ToUpper(s[i].text)
		}
		return ""
	}
	has := func(word string) bool {
		return slices.ContainsFunc(s, func(w lexeme) bool { return w.is(word) })
	}
	named := func(i int) string {
		for slices.Contains([]string{"IF", "EXISTS", "NOT", "ONLY", "CONCURRENTLY", "TABLE"}, at(i)) {
			i++
		}
		if i < len(s) {
			return s[i].text
		}
		return ""
	}
	made := func(verb string, i int) (Statement, bool) {
		return Statement{Verb: strings.ToLower(verb), Target: named(i), Does: Destroys}, true
	}
	switch at(0) {
	case "DROP":
		if len(s) > 1 && at(1) != "=" && at(1) != "," {
			return made("drop "+at(1), 2)
		}
	case "TRUNCATE":
		if len(s) > 1 && at(1) != "(" {
			return made("truncate", 1)
		}
	case "DELETE":
		from := slices.IndexFunc(s, func(w lexeme) bool { return w.is("FROM") })
		if from > 0 && from < 4 || len(s) > 1 && at(1) != "=" && at(1) != "(" && !has("FROM") && len(s) < 4 {
			if !selective(s) {
				return made("delete", max(from+1, 1))
			}
		}
	case "UPDATE":
		if has("SET") && !selective(s) {
			return made("update", 1)
		}
	case "ALTER":
		if has("DROP") {
			return made("alter "+at(1)+" drop", 2)
		}
		if (has("DELETE") || has("UPDATE")) && has("WHERE") && !selective(s) { // a mutation of ClickHouse
			return made("alter "+at(1)+" rows", 2)
		}
		if at(1) == "SYSTEM" || at(1) == "USER" || at(1) == "ROLE" || at(1) == "LOGIN" {
			return Statement{"alter " + strings.ToLower(at(1)), named(2), Changes}, true
		}
	case "GRANT", "REVOKE":
		if has("ON") || has("TO") || has("FROM") {
			return Statement{strings.ToLower(at(0)), named(1), Changes}, true
		}
	case "CREATE":
		switch {
		case at(1) == "OR" && at(2) == "REPLACE" && slices.Contains([]string{
			"TABLE", "DATABASE", "SCHEMA",
			"STAGE",
		}, at(3)):
			return made("create or replace "+at(3), 4)
		case at(1) == "USER" || at(1) == "ROLE" || at(1) == "LOGIN":
			return Statement{"create " + strings.ToLower(at(1)), named(2), Changes}, true
		}
	case "RESET":
		if at(1) == "MASTER" || at(1) == "SLAVE" || at(1) == "REPLICA" || at(1) == "BINARY" {
			return made("reset "+at(1), 2)
		}
	case "PURGE":
		if len(s) > 1 {
			return made("purge "+at(1), 2)
		}
	case "SHUTDOWN":
		return made("shutdown", 1)
	case "KILL":
		if len(s) < 4 {
			return made("kill", 1)
		}
	case "INSERT":
		if at(1) == "OVERWRITE" {
			return made("insert overwrite", 2)
		}
	case "VACUUM":
		if has("INTO") {
			return made("vacuum into", 2)
		}
	case "FLUSH":
		if at(1) == "LOGS" || at(1) == "PRIVILEGES" || at(1) == "BINARY" {
			return Statement{"flush " + strings.ToLower(at(1)), "", Changes}, true
		}
	case "STOP", "START", "CHANGE":
		if at(1) == "SLAVE" || at(1) == "REPLICA" || at(1) == "MASTER" || at(1) == "REPLICATION" {
			return Statement{strings.ToLower(at(0) + " " + at(1)), "", Changes}, true
		}
	case "MERGE":
		if has("DELETE") {
			return made("merge delete", 2)
		}
	case "RESTORE":
		if at(1) == "DATABASE" || at(1) == "FROM" {
			return made("restore", 1)
		}
	case "COPY":
		if has("PROGRAM") {
			return Statement{Verb: "copy program", Does: starts}, true
		}
	case "EXEC", "EXECUTE", "CALL":
		if strings.Contains(at(1), "XP_CMDSHELL") {
			return Statement{Verb: "xp_cmdshell", Does: starts}, true
		}
		if strings.Contains(at(1), "DROP") || strings.Contains(at(1), "XP_") {
			return made("exec", 1)
		}
	case "REMOVE": // SurrealDB
		if at(1) == "NAMESPACE" || at(1) == "DATABASE" || at(1) == "TABLE" {
			return made("remove "+at(1), 2)
		}
	case "SELECT":
		for _, f := range []string{
			"pg_terminate_backend", "pg_drop_replication_slot", "lo_unlink", "pg_reload_conf", "dblink_exec",
			"pg_switch_wal",
			"pg_file_unlink", "dropgeometrytable",
		} {
			if slices.ContainsFunc(s, func(w lexeme) bool {
				return w.kind == 0 && strings.EqualFold(base(strings.ReplaceAll(w.text, ".", "/")), f)
			}) {
				return made(f, len(s))
			}
		}
	}
	return Statement{}, false
}

// selective reports whether a statement names the rows: a WHERE that can be false, or a LIMIT. What stands in
// brackets is another statement's.
func selective(s []lexeme) bool {
	where, others, depth := -1, false, 0
	for i, w := range s {
		switch {
		case w.is("("):
			depth++
		case w.is(")"):
			depth--
		case depth == 0 && where < 0 && w.is("WHERE"):
			where = i
		case depth == 0 && (w.is("USING") || w.is("LIMIT")):
			others = true
		}
	}
	if where < 0 {
		return others
	}
	rest := slices.DeleteFunc(slices.Clone(s[where+1:]), func(w lexeme) bool { return w.is("(") || w.is(")") })
	for j, w := range rest {
		if w.is("RETURNING") {
			rest = rest[:j]
			break
		}
	}
	always := func(j int) bool {
		return j+2 < len(rest) && (rest[j+1].is("=") || rest[j+1].is("==")) && rest[j] == rest[j+2]
	}
	and := slices.ContainsFunc(rest, func(w lexeme) bool { return w.is("AND") })
	switch {
	case len(rest) == 0:
		return false
	case len(rest) == 1:
		return !rest[0].is("TRUE") && !rest[0].is("1")
	case always(0) && !and:
		return false
	case slices.ContainsFunc(rest, func(w lexeme) bool { return w.is("OR") }):
		for j := range rest {
			last := rest[j].is("TRUE") || rest[j].is("1") && j+1 == len(rest)
			if always(j) || last && j > 0 && rest[j-1].is("OR") {
				return false
			}
		}
	}
	return true
}

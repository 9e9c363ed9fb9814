package effect

import (
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/program"
)

// No SQL parser is used: the clients here speak some thirty dialects, each with statements and
// quotes of its own, and a parser of one of them refuses the others. What is asked is less than
// a parser answers: which statements destroy. So the text is cut into words, quotes and comments
// known, and statements that destroy are recognised by their first words.

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
	if !strings.ContainsAny(text, " \t\n.;(") && !loneStatement[strings.ToUpper(text)] {
		return
	}
	r.includes(text)
	for _, s := range Statements(text) {
		r.out.Acts = append(r.out.Acts, Act{Program: r.Name, Verb: s.Verb, Target: s.Target, Does: s.Does})
	}
}

var loneStatement = map[string]bool{"SHUTDOWN": true}

// Statement is one SQL statement that does harm.
type Statement struct{ Verb, Target, Does string }

// Statements are those of a text that destroy data or change who may do what.
func Statements(text string) []Statement {
	var found []Statement
	words := sqlWords(text)
	for i := 0; i < len(words); i++ {
		if i > 0 && !begins(words[i-1]) {
			continue
		}
		end := i
		for end < len(words) && words[end] != ";" {
			end++
		}
		if s, ok := destroying(words[i:end]); ok {
			found = append(found, s)
		}
	}
	return found
}

// begins reports whether a statement can begin behind this word: in front of the first, in
// brackets, in the body of a block, behind EXPLAIN ANALYZE.
func begins(word string) bool {
	switch strings.ToUpper(word) {
	case ";", "(", "ANALYZE", "BEGIN", "THEN", "ELSE", "AS", "LOOP", "DO", "EXPLAIN", "GO", "EXECUTE", "IMMEDIATE":
		return true
	}
	return false
}

// destroying looks at the first words of a statement.
func destroying(s []string) (Statement, bool) {
	at := func(i int) string {
		if i < len(s) {
			return strings.ToUpper(s[i])
		}
		return ""
	}
	has := func(word string) bool {
		return slices.ContainsFunc(s, func(w string) bool { return strings.EqualFold(w, word) })
	}
	named := func(i int) string {
		for i < len(s) && slices.Contains([]string{"IF", "EXISTS", "NOT", "ONLY", "CONCURRENTLY", "TABLE"}, at(i)) {
			i++
		}
		if i < len(s) {
			return s[i]
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
		from := slices.IndexFunc(s, func(w string) bool { return strings.EqualFold(w, "FROM") })
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
	case "DETACH", "UNDROP", "RENAME":
	case "RESTORE":
		if at(1) == "DATABASE" || at(1) == "FROM" {
			return made("restore", 1)
		}
	case "EXEC", "CALL":
		if strings.Contains(strings.ToLower(at(1)), "drop") || strings.Contains(strings.ToLower(at(1)), "xp_") {
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
			if slices.ContainsFunc(s, func(w string) bool {
				return strings.EqualFold(base(strings.ReplaceAll(w,
					".", "/")), f)
			}) {
				return made(f, len(s))
			}
		}
	case `\GEXEC`:
		return made("gexec", 1)
	case ".RESTORE", ".OPEN":
		if at(0) == ".RESTORE" || has("--new") {
			return made(strings.ToLower(at(0)), len(s))
		}
	}
	return Statement{}, false
}

// selective reports whether a statement names the rows: a WHERE that can be false, or a LIMIT.
func selective(s []string) bool {
	i := slices.IndexFunc(s, func(w string) bool { return strings.EqualFold(w, "WHERE") })
	if i < 0 {
		return slices.ContainsFunc(s, func(w string) bool {
			return strings.EqualFold(w, "USING") ||
				strings.EqualFold(w, "LIMIT")
		})
	}
	rest := s[i+1:]
	switch {
	case len(rest) == 0:
		return false
	case len(rest) == 1:
		return !slices.Contains([]string{"TRUE", "1"}, strings.ToUpper(rest[0]))
	case len(rest) >= 3 && rest[1] == "=" && rest[0] == rest[2]:
		return slices.ContainsFunc(rest, func(w string) bool { return strings.EqualFold(w, "AND") })
	case slices.ContainsFunc(rest, func(w string) bool { return strings.EqualFold(w, "OR") }):
		for j := 0; j+2 < len(rest); j++ {
			if rest[j+1] == "=" && rest[j] == rest[j+2] {
				return false
			}
		}
	}
	return true
}

// sqlWords cuts text into words and marks. Comments are left out, a string is one word, and the
// body between dollars is cut as well, since a block of statements stands there.
func sqlWords(text string) []string {
	var words []string
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '\n':
			// A client's own commands end with the line.
			if n := len(words); n > 0 && (strings.HasPrefix(words[n-1], ".") || strings.HasPrefix(words[n-1], `\`)) {
				words = append(words, ";")
			}
			i++
		case strings.HasPrefix(text[i:], "--") && (i+2 == len(text) || !name(text[i+2])), c == '#' && i == 0:
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			body := ""
			if end >= 0 {
				body = text[i+2 : i+2+end]
				i += end + 4
			} else {
				i = len(text)
			}
			if strings.HasPrefix(body, "!") { // MySQL executes these
				words = append(words, sqlWords(strings.TrimLeft(body, "!0123456789"))...)
			}
		case c == '\'' || c == '"' || c == '`':
			end := i + 1
			for end < len(text) && text[end] != c {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end, len(text))
			words = append(words, text[i+1:end])
			i = end + 1
		case c == '$' && i+1 < len(text) && text[i+1] == '$':
			words = append(words, ";")
			i += 2
		case c == ';' || c == '(' || c == ')' || c == ',' || c == '=':
			words = append(words, string(c))
			i++
		default:
			end := i
			for end < len(text) && !strings.ContainsRune(" \t\r\n'\"`;(),=", rune(text[end])) &&
				!strings.HasPrefix(text[end:], "/*") {
				end++
			}
			end = max(end, i+1)
			words = append(words, text[i:end])
			i = end
		}
	}
	return words
}

package effect

import "strings"

// A parser of SQL was not taken: those in pure Go read MySQL alone or one dialect each, refuse the others, and weigh
// megabytes, while the clients here speak some thirty dialects. What is asked is less than a parser answers: which
// statements destroy. So text is cut as its client cuts it, and a statement is known by its words. Where nothing
// is known of a client, the text is cut in all three ways, and what one of them finds counts.

// dialect is what decides where strings and comments end.
type dialect struct {
	backslash bool // \' in a string is a quote
	nested    bool // comments hold comments
	dollar    bool // $tag$ … $tag$
	hash      bool // # begins a comment, and -- needs a blank behind it
	executes  bool // /*! … */ is no comment
	brackets  bool // [a name]
	anywhere  bool // a statement needs no mark in front
	meta      byte // a line that begins so is a command of the client: . or, anywhere, a backslash
}

var (
	postgres = dialect{nested: true, dollar: true, meta: '\\'}
	mySQL    = dialect{backslash: true, hash: true, executes: true, meta: '\\'}
	sqLite   = dialect{brackets: true, meta: '.'}
	duckDB   = dialect{dollar: true, meta: '.'}
	tSQL     = dialect{nested: true, brackets: true, anywhere: true}
)

// dialects returns those that a client may speak.
func dialects(client string) []dialect {
	switch client {
	case "psql", "pgcli", "ysqlsh", "vsql", "cockroach", "timescaledb", "greenplum", "gpdb":
		return []dialect{postgres}
	case "mysql", "mariadb", "mycli", "mysqlsh", "mariadb-client", "dolt":
		return []dialect{mySQL}
	case "sqlite3", "sqlite", "litecli", "libsql", "tursodb", "rqlite":
		return []dialect{sqLite}
	case "clickhouse", "clickhouse-client":
		return []dialect{{backslash: true, nested: true, dollar: true}}
	case "duckdb":
		return []dialect{duckDB}
	case "sqlcmd", "osql", "mssql-cli":
		return []dialect{tSQL}
	}
	return []dialect{postgres, mySQL, sqLite}
}

// lexeme is a word, a mark or a quoted text of SQL.
type lexeme struct {
	text string
	kind byte // 0: a word or mark; ': a string; ": a quoted name; $: between dollars; \: a command of the client
}

// cutter cuts a text.
type cutter struct {
	dialect
	text string
	i    int
	out  []lexeme
	ends string // what ends a statement besides ; (DELIMITER //)
	used bool   // something stands in front in the same line
}

// cut cuts text into lexemes, without comments.
func (d dialect) cut(text string) []lexeme {
	c := &cutter{dialect: d, text: text}
	for c.i < len(text) {
		c.next()
	}
	return c.out
}

func (c *cutter) add(kind byte, text string) { c.out = append(c.out, lexeme{text, kind}) }

// line returns the rest of the line, and goes behind it.
func (c *cutter) line() string {
	line, _, _ := strings.Cut(c.text[c.i:], "\n")
	c.i += len(line)
	return strings.TrimRight(line, "\r")
}

func (c *cutter) next() {
	rest := c.text[c.i:]
	ch := rest[0]
	used := c.used
	c.used = ch != '\n' && (used || ch > ' ')
	switch {
	case c.ends != "" && strings.HasPrefix(rest, c.ends):
		c.add(0, ";")
		c.i += len(c.ends)
	case ch == '\n' || ch == ' ' || ch == '\t' || ch == '\r' || ch == '\f' || ch == '\v':
		c.i++
	case !used && c.ownLine(rest):
	case c.meta == '\\' && ch == '\\':
		c.add('\\', c.line())
	case strings.HasPrefix(rest, "--") && (!c.hash || len(rest) == 2 || rest[2] <= ' '), c.hash && ch == '#':
		c.line()
	case strings.HasPrefix(rest, "/*"):
		c.comment(rest)
	case ch == '\'':
		c.quoted('\'', c.backslash || c.escapes())
	case ch == '"' || ch == '`':
		c.quoted(ch, c.backslash && ch == '"')
	case ch == '[' && c.brackets:
		c.quoted(']', false)
	case ch == '$' && c.dollar && c.dollars(rest):
	case strings.IndexByte(";(),", ch) >= 0:
		c.add(0, rest[:1])
		c.i++
	case sqlByte(ch):
		end := 1
		for end < len(rest) && sqlByte(rest[end]) && (c.ends == "" || !strings.HasPrefix(rest[end:], c.ends)) {
			end++
		}
		c.add(0, rest[:end])
		c.i += end
	default:
		end := 1 // an operator
		for end < len(rest) && end < 2 && strings.IndexByte("<>=!|", rest[end]) >= 0 {
			end++
		}
		c.add(0, rest[:end])
		c.i += end
	}
}

// sqlByte reports whether a byte is part of a word. Names with dots are one.
func sqlByte(c byte) bool {
	return name(c) || c >= 0x80 || c == '.' || c == '@' || c == '$' || c == '#' || c == ':'
}

// ownLine reports whether rest begins with a command of the client that takes its whole line, and reads it.
func (c *cutter) ownLine(rest string) bool {
	word, _, _ := strings.Cut(strings.TrimRight(before(rest, "\n"), "\r"), " ")
	switch {
	case c.meta == '.' && rest[0] == '.', rest[0] == '!' || strings.HasPrefix(rest, ":!!"):
	case c.executes && strings.EqualFold(word, "delimiter"):
		c.ends = strings.TrimSpace(c.line()[len(word):])
		if c.ends == ";" {
			c.ends = ""
		}
		return true
	case c.executes && (strings.EqualFold(word, "system") || strings.EqualFold(word, "pager")):
	case strings.EqualFold(word, "go") || word == "/":
		c.line()
		c.add(0, ";")
		return true
	default:
		return false
	}
	c.add('\\', c.line())
	return true
}

// comment leaves a comment out. One without an end goes to the end of the text.
func (c *cutter) comment(rest string) {
	depth, end := 1, 2
	for end < len(rest) && depth > 0 {
		switch {
		case strings.HasPrefix(rest[end:], "*/"):
			depth--
			end += 2
		case c.nested && strings.HasPrefix(rest[end:], "/*"):
			depth++
			end += 2
		default:
			end++
		}
	}
	c.i += end
	body, executed := strings.CutPrefix(strings.TrimPrefix(rest[2:end], "M"), "!")
	if c.executes && executed {
		inner := *c
		inner.text, inner.i, inner.out = strings.TrimSuffix(strings.TrimLeft(body, "0123456789"), "*/"), 0, nil
		inner.executes = false // a comment in it is one
		for inner.i < len(inner.text) {
			inner.next()
		}
		c.out = append(c.out, inner.out...)
	}
}

// escapes reports whether the string that begins here is one of E'…'.
func (c *cutter) escapes() bool {
	n := len(c.out)
	return n > 0 && c.i > 0 && c.text[c.i-1]|0x20 == 'e' && c.out[n-1].is("E")
}

// quoted is a text up to its closing mark; two of them are one mark of the text.
func (c *cutter) quoted(mark byte, escapes bool) {
	var text strings.Builder
	i := c.i + 1
	for i < len(c.text) {
		switch ch := c.text[i]; {
		case escapes && ch == '\\' && i+1 < len(c.text):
			i++
			text.WriteByte(c.text[i])
		case ch == mark && i+1 < len(c.text) && c.text[i+1] == mark:
			i++
			text.WriteByte(mark)
		case ch == mark:
			c.i = i + 1
			c.add(quoteKind(mark, c.executes || c.hash), text.String())
			return
		default:
			text.WriteByte(ch)
		}
		i++
	}
	c.i = len(c.text)
	c.add(quoteKind(mark, c.hash), text.String())
}

func quoteKind(mark byte, strs bool) byte {
	if mark == '\'' || mark == '"' && strs {
		return '\''
	}
	return '"'
}

// dollars reports whether rest begins with a text between $$ or $tag$, and reads it.
func (c *cutter) dollars(rest string) bool {
	end := 1
	for end < len(rest) && (name(rest[end]) || rest[end] >= 0x80) {
		end++
	}
	if end == len(rest) || rest[end] != '$' || end > 1 && rest[1] >= '0' && rest[1] <= '9' {
		return false
	}
	body, _, _ := strings.Cut(rest[end+1:], rest[:end+1])
	c.add('$', body)
	c.i += min(len(rest), 2*(end+1)+len(body))
	return true
}

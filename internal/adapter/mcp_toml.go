package adapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
)

// tableHead begins our table in the configuration of Codex. The file is TOML; it is changed as lines, so that what
// others wrote stays as it is.
const tableHead = "[mcp_servers." + serverName + "]"

// otherForm is the entry in a form that is not changed here.
var otherForm = lazyregexp.New(`(?m)^\s*(mcp_servers\s*=|mcp_servers\.|"mcp_servers"|\[\s*mcp_servers\s*\]` +
	`(.|\n)*?^\s*"?` + serverName + `"?\s*[.=]|\[\s*"?mcp_servers"?\s*\.\s*["']` + serverName + `)`)

// table returns the entry as TOML. Its strings are JSON strings, which TOML reads the same.
func (e MCPEntry) table(at mcpFile) string {
	c := e.entry(at)
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = tomlText(a)
	}
	return fmt.Sprintf("%s\ncommand = %s\nargs = [%s]\n%s = %d\n",
		tableHead, tomlText(c.Command), strings.Join(args, ", "), at.wait, c.Timeout)
}

func tomlText(s string) string {
	b, _ := json.Marshal(s) // a string has a text
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}

// editTable returns a TOML file with the entry, or without. Keys that a person has added to the table stay.
func (e MCPEntry) editTable(old []byte, at mcpFile, install bool) ([]byte, error) {
	text := string(old)
	if strings.Contains(text, `"""`) || strings.Contains(text, "'''") {
		if n := strings.Count(text, tableHead); n > 0 {
			return nil, errors.New("it has texts of several lines, which are not told from tables here")
		}
	}
	if otherForm().MatchString(text) {
		return nil, errors.New("it has mcp_servers in another form than tables")
	}
	before, mine, after := cutTable(text)
	if mine == "" {
		if !install {
			return old, nil
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if text != "" {
			text += "\n"
		}
		return []byte(text + e.table(at)), nil
	}
	command := keyLine("command").FindStringSubmatch(mine)
	if command == nil || !e.isOurs(strings.Trim(command[1], `"'`)) {
		return nil, errOthers
	}
	if !install {
		return []byte(strings.TrimRight(before, "\n") + strings.Repeat("\n", min(len(before), 1)) + after), nil
	}
	for line := range strings.Lines(e.table(at)) {
		key, value, isKey := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		if !isKey {
			continue
		}
		if at := keyLine(key).FindStringSubmatchIndex(mine); at != nil {
			mine = mine[:at[2]] + value + mine[at[3]:]
		} else {
			mine = strings.Replace(mine, tableHead+"\n", tableHead+"\n"+line, 1)
		}
	}
	return []byte(before + mine + after), nil
}

// keyLine returns the line of a key; its value is the first group.
func keyLine(key string) *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*` + key + `\s*=\s*(.*)$`) }

// cutTable finds our table: from its head to the next one.
func cutTable(text string) (before, mine, after string) {
	at := regexp.MustCompile(`(?m)^[ \t]*` + regexp.QuoteMeta(tableHead) + `[ \t]*(#.*)?$`).FindStringIndex(text)
	if at == nil {
		return text, "", ""
	}
	before, mine = text[:at[0]], text[at[0]:]
	if next := regexp.MustCompile(`(?m)^[ \t]*\[`).FindAllStringIndex(mine, 2); len(next) == 2 {
		mine, after = mine[:next[1][0]], mine[next[1][0]:]
	}
	return before, mine, after
}

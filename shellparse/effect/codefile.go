package effect

import (
	"regexp"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/internal/lazyregexp"
	"github.com/sandboxd/sandboxd/shellparse/program"
)

// quoted is a file name in quotes in code.
const quoted = `\s*["'` + "`" + `]([^"'` + "`" + `]+)["'` + "`" + `]\s*`

// opens find, by language, calls that write a file anew. The first group, or the second, is its name.
var opens = sync.OnceValue(func() map[string][]*regexp.Regexp {
	return map[string][]*regexp.Regexp{
		"python": {
			regexp.MustCompile(`\bopen\(` + quoted + `,\s*(?:mode\s*=\s*)?["']w`),
			regexp.MustCompile(`\bPath\(` + quoted + `\)\.(?:write_text|write_bytes)\(`),
			regexp.MustCompile(`\bPath\(` + quoted + `\)\.open\(["']w`),
			regexp.MustCompile(`\bcopy(?:file|2)?\([^,()]+,` + quoted + `\)`),
			regexp.MustCompile(`\bos\.replace\([^,()]+,` + quoted + `\)`),
		},
		"node": {
			regexp.MustCompile(`\b(?:write(?:Text)?File(?:Sync)?|createWriteStream)\(` + quoted),
			regexp.MustCompile(`\bopen(?:Sync)?\(` + quoted + `,\s*["']w`),
			regexp.MustCompile(`\b(?:copyFile|copyFileSync|renameSync|rename)\([^,()]+,` + quoted),
			regexp.MustCompile(`\bBun\.write\(` + quoted),
		},
		"ruby": {
			regexp.MustCompile(`\b(?:File|IO)\.(?:write|binwrite)[\s(]` + quoted),
			regexp.MustCompile(`\b(?:File\.)?(?:open|new)[\s(]` + quoted + `,\s*["']w`),
			regexp.MustCompile(`\bFileUtils\.(?:cp|mv|copy)[\s(][^,()]+,` + quoted),
		},
		"php": {
			regexp.MustCompile(`\bfile_put_contents\(` + quoted + `,`),
			regexp.MustCompile(`\bfopen\(` + quoted + `,\s*["']w`),
		},
		"perl": {
			regexp.MustCompile(`\bopen[\s(][^,]+,\s*["']\+?>["']\s*,` + quoted),
			regexp.MustCompile(`\bopen[\s(][^,]+,\s*["']\+?>\s*([^>"'&\s][^"']*)["']`),
		},
	}
})

// reads is what code says that reads a file: what it then writes may be made from that.
var reads = lazyregexp.New(`\bread|\.load\(|\bloads?\(|get_contents|getline|<\$?\w*>|slurp|FILE_APPEND|` +
	`require\(["']\./`)

// opened are the files that code in the line writes anew and has not read.
func (r *reader) opened(language, text string) {
	calls := opens()[language]
	if len(calls) == 0 || reads().MatchString(text) {
		return
	}
	for _, call := range calls {
		for _, m := range call.FindAllStringSubmatch(text, 16) {
			if name := m[1]; strings.Count(text, name) == 1 {
				r.out.Replaces = append(r.out.Replaces, Replace{Word: program.Literal(name, r.At)})
			}
		}
	}
}

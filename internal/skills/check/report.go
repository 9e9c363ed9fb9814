package check

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/internal/visible"
)

// Print writes findings for people, with their number. packages is the number of packages that were checked.
func Print(w io.Writer, all []Finding, packages int) {
	skill := ""
	for _, f := range all {
		if f.Skill != skill {
			skill = f.Skill
			fmt.Fprintf(w, "%s\n", heading(skill))
		}
		at := visible.Text(f.File)
		if f.Line != nil {
			at = fmt.Sprintf("%s:%d", at, *f.Line)
		}
		fmt.Fprintf(w, "  %-8s %-8s  %s: %s\n                     %s\n",
			f.Severity, f.Rule, at, visible.Text(f.Detail), visible.Text(f.Fix))
	}
	if len(all) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s, %s", count(packages, "package"), count(len(all), "finding"))
	for _, s := range severities {
		n := 0
		for _, f := range all {
			if f.Severity == s {
				n++
			}
		}
		if n > 0 {
			fmt.Fprintf(w, ", %d %s", n, s)
		}
	}
	fmt.Fprintln(w)
}

// heading returns the directory of a package in a form that may begin a line. GitHub Actions executes lines that
// begin with :: or ##, and the author of a change chooses the names of directories.
func heading(skill string) string {
	if strings.HasPrefix(strings.TrimSpace(skill), ":") || strings.HasPrefix(strings.TrimSpace(skill), "#") {
		skill = "./" + skill
	}
	return visible.Text(skill)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Annotate writes findings as annotations of GitHub Actions. The author of the skill chose the names in them, so every
// text is escaped: GitHub would obey a line that begins with ::.
func Annotate(w io.Writer, all []Finding) {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, f := range all {
		level, line := "warning", 1
		if f.Severity == Low {
			level = "notice"
		}
		if f.Line != nil {
			line = *f.Line
		}
		fmt.Fprintf(w, "::%s file=%s,line=%d::%s\n", level, property.Replace(path.Join(f.Skill, f.File)), line,
			data.Replace(f.Rule+": "+f.Detail))
	}
}

// Summary writes findings as a Markdown table.
func Summary(w io.Writer, all []Finding, packages int) error {
	var b strings.Builder
	b.WriteString("## Skill Validation\n\n")
	if len(all) > 0 {
		b.WriteString("| Skill | Rule | Severity | File | Detail |\n|---|---|---|---|---|\n")
		for _, f := range all {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n",
				cell(f.Skill), f.Rule, f.Severity, cell(f.File), cell(f.Detail))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s, %s\n", count(packages, "package"), count(len(all), "finding"))
	_, err := io.WriteString(w, b.String())
	return err
}

func cell(s string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)), " ")
}

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/daemon"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools"
)

// toolsCmd returns the command that describes the built-in tools. It needs no daemon. GET /sessions/{id}/tools lists
// those of a session.
func toolsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "tools",
		Short: "List and describe the built-in tools",
		Long: `Lists the tools of sandboxd, in the formats that model APIs take. The daemon decides
which of them a session may use.`,
	}
	c.AddCommand(toolsListCmd(), toolsShowCmd())
	return c
}

func toolsListCmd() *cobra.Command {
	var format string
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List the tools", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON || format != "" {
				return printDefinitions(cmd, builtinTools(), format)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tGROUP\tCLASS\tWHAT")
			for _, g := range daemon.BuiltIn() {
				for _, t := range g.Tools {
					s := t.Spec()
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, g.Name, s.Class, firstSentence(s.Description))
				}
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&format, "format", "", "print definitions as JSON: openai, anthropic or mcp")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (as --format anthropic)")
	return c
}

func toolsShowCmd() *cobra.Command {
	var format string
	var asJSON bool
	c := &cobra.Command{
		Use: "show TOOL", Short: "Describe one tool with its arguments", Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, t := range builtinTools() {
				names = append(names, t.Spec().Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found := catalog.Filter(builtinTools(), args, nil)
			if len(found) == 0 {
				return &tool.Error{
					Code: "tool_not_found", Msg: fmt.Sprintf("no tool %q", args[0]),
					Hint: "sandboxd tools ls lists them",
				}
			}
			if asJSON || format != "" {
				return printDefinitions(cmd, found, format)
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), tools.Describe(found[0].Spec()))
			return err
		},
	}
	c.Flags().StringVar(&format, "format", "", "print the definition as JSON: openai, anthropic or mcp")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (as --format anthropic)")
	return c
}

func builtinTools() []tool.Tool {
	var all []tool.Tool
	for _, g := range daemon.BuiltIn() {
		all = append(all, g.Tools...)
	}
	return all
}

func printDefinitions(cmd *cobra.Command, list []tool.Tool, format string) error {
	defs, err := catalog.Definitions(list, format)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(defs)
}

// toolsPage returns the text of docs/tools.md.
func toolsPage() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Tools

Made from the definitions by `+"`make generate`"+`; do not edit. Every tool also takes `+"`_limit`"+
		`, how many characters of the
result the model is shown (0 or -1 shows all); tools that have no `+"`limit`"+
		` of their own take it under that name, too.

These are deferred unless `+"`tools.deferred`"+` says otherwise: %s. The definitions of a session leave them out until
ToolSearch has brought them; they can be called all the same.

What clients are told as hints: read-only, destructive, idempotent, reaches other systems. Origin is who
[wrote what a tool returns](provenance.md), if that is not the tool.
`, strings.Join(daemon.Deferred(), ", "))
	for _, g := range daemon.BuiltIn() {
		if len(g.Tools) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", g.Name)
		for _, t := range g.Tools {
			b.WriteString("\n" + tools.Describe(t.Spec()))
		}
	}
	return b.String()
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i]
	}
	return strings.TrimSuffix(s, ".")
}

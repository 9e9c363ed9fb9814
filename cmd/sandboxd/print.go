package main

import (
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sandboxd/sandboxd/internal/review"
	"github.com/sandboxd/sandboxd/internal/visible"
)

// output is where a command prints: only what is visible comes out. What is no text for
// people is written to the file itself, by [raw] and [results].
type output struct {
	io.Writer
	file io.Writer
}

func newOutput(file io.Writer) output { return output{visible.NewWriter(file), file} }

// raw is the output of a command for what is known to be visible, with what the command
// does to the terminal itself.
func raw(cmd *cobra.Command) io.Writer {
	if o, ok := cmd.OutOrStdout().(output); ok {
		return o.file
	}
	return cmd.OutOrStdout()
}

// results is the output of a command for the results of programs, which are bytes: as they
// are for a file or a pipe, and visible on a terminal.
func results(cmd *cobra.Command) io.Writer {
	if onTerminal(cmd) {
		return cmd.OutOrStdout()
	}
	return raw(cmd)
}

// onTerminal reports whether a command prints on a terminal.
func onTerminal(cmd *cobra.Command) bool {
	f, ok := raw(cmd).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// screenOf is the layout for what a command prints.
func screenOf(cmd *cobra.Command) review.Screen {
	if f, ok := raw(cmd).(*os.File); ok {
		return review.ScreenOf(f)
	}
	return review.Screen{Width: 80}
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

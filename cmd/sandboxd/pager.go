package main

import (
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// pager prints lines. Where a person types and reads on a terminal, it stops after each screen.
type pager struct {
	out, raw io.Writer
	keys     *os.File // nil: nobody is asked
	size     func() (columns, rows int)
	used     int // rows of this screen
	left     bool
}

func newPager(cmd *cobra.Command) *pager {
	p := &pager{out: cmd.OutOrStdout(), raw: raw(cmd)}
	screen, ok := p.raw.(*os.File)
	if !ok || !onTerminal(cmd) || !term.IsTerminal(int(os.Stdin.Fd())) {
		return p
	}
	p.keys = os.Stdin
	p.size = func() (int, int) {
		columns, rows, err := term.GetSize(int(screen.Fd()))
		if err != nil || columns <= 0 || rows <= 1 {
			return 80, 24
		}
		return columns, rows
	}
	return p
}

// say prints one line; false if the person has left, or nobody reads any more.
func (p *pager) say(line string) bool {
	if p.left {
		return false
	}
	if p.keys != nil {
		columns, rows := p.size()
		need := 1 + max(0, utf8.RuneCountInString(line)-1)/columns
		if p.used > 0 && p.used+need >= rows && !p.ask() {
			p.left = true
			return false
		}
		p.used += need
	}
	_, err := fmt.Fprintln(p.out, line)
	p.left = err != nil
	return err == nil
}

// ask waits for a key; false is to leave.
func (p *pager) ask() bool {
	old, err := term.MakeRaw(int(p.keys.Fd()))
	if err != nil {
		return true
	}
	fmt.Fprint(p.raw, "-- more: Enter, or q to leave --")
	var key [1]byte
	_, err = p.keys.Read(key[:])
	fmt.Fprint(p.raw, "\r\x1b[K")
	_ = term.Restore(int(p.keys.Fd()), old) // the terminal is the person's, who can reset it
	p.used = 0
	const ctrlC, ctrlD = 3, 4
	return err == nil && key[0] != 'q' && key[0] != ctrlC && key[0] != ctrlD
}

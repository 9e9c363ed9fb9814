package shellparse

import (
	"reflect"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/source"
)

// Text that sh runs is read twice, because sh may be bash or a shell without the
// extensions of bash. In such a shell "true &>f rm y" runs rm, and so do ((rm)) and
// [[ a || rm ]]. x+=y and declare assign nothing, and braces are letters. An assignment
// in front of a special builtin stays.

// bashes are the names under which bash, or a shell close to it, certainly runs text. Every other program that runs
// text starts sh.
var bashes = []string{"bash", "rbash", "zsh", "rzsh"}

// special are the builtins after which an assignment that stands before them stays in force.
var special = []string{
	"break", ":", "continue", ".", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift", "times",
	"trap", "unset",
}

// asPosix walks text as a shell without the extensions of bash reads it. Such a shell
// runs each line before it reads the next one. So if a line is no shell text to it, only
// the lines before that line count.
func (w *walker) asPosix(src string, sc *scope, at *Pos) error {
	if err := source.Check(src); err != nil {
		return err
	}
	saved := w.posix
	w.posix = true
	for text := src; text != ""; {
		if file, read, err := source.ParsePosix(text); err == nil {
			err = w.walkFile(file, read, sc, at)
			w.posix = saved
			return err
		}
		text = strings.TrimRight(text, "\n")
		text = text[:strings.LastIndexByte(text, '\n')+1]
		w.step(nil)
	}
	w.posix = saved
	return nil
}

// bySh walks text that sh runs, after bash has read it. from is the first of the commands that it found as bash. A
// command that both readings run is listed once.
func (w *walker) bySh(src string, sc *scope, at *Pos, from int) error {
	if !source.OnlyBash(src) {
		return nil
	}
	to := len(w.out.Commands)
	if err := w.asPosix(src, sc, at); err != nil {
		return err
	}
	both, next := w.out.Commands[:to], from
	for _, c := range w.out.Commands[to:] {
		if next < to && reflect.DeepEqual(c, both[next]) {
			next++
			continue
		}
		both = append(both, c)
	}
	w.out.Commands = both
	return nil
}

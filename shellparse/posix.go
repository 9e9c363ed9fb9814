package shellparse

import (
	"reflect"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse/source"
)

// Text that sh runs is read twice: sh may be bash, and it may be a shell that knows
// nothing of bash's own: "true &>f rm y" runs rm there, ((rm)) and [[ a || rm ]] too,
// x+=y and declare assign nothing, braces are letters, and what is assigned in front of
// a special builtin stays.

// bashes are the names under which text is surely run by bash, or by a shell that is
// close to it. Everything else that runs text starts sh.
var bashes = []string{"bash", "rbash", "zsh", "rzsh"}

// special are the builtins whose assignments stay.
var special = []string{
	"break", ":", "continue", ".", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift", "times",
	"trap", "unset",
}

// asPosix walks text as a shell reads it that knows nothing of bash's own. Such a shell
// runs each line before it reads the next one, so that only the lines count in front of
// one that is no shell text to it.
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

// bySh walks text that is run by sh, which bash reads already: from is where the
// commands begin that it found. What both readings run is listed once.
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

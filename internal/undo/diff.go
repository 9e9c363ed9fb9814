package undo

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/sandbox"
)

const (
	maxDiffFile = 1 << 20 // bytes of a file that is compared
	maxDiff     = 4 << 20 // bytes of an answer
	diffContext = 3       // lines around a change
)

// diffAnswer is what a call has changed. Secrets that have a known form are masked.
type diffAnswer struct {
	CallID string `json:"call_id"`
	Diff   string `json:"diff"`
}

func (h handlers) diff(r *http.Request) (any, error) {
	of, err := h.of(r)
	if err != nil {
		return nil, err
	}
	if err := budget.Of(r.Context()).Take(4 * maxDiff); err != nil {
		return nil, err
	}
	text, err := h.j.diff(of, maxDiff)
	return diffAnswer{of.ID, text}, err
}

// diff returns the changes of a call as text of at most most bytes.
func (j *journal) diff(of call, most int) (string, error) {
	var b strings.Builder
	for i, c := range of.Changes {
		text, err := j.diffOf(of, c)
		if err != nil {
			return "", err
		}
		if b.Len()+len(text) > most {
			fmt.Fprintf(&b, "[%d more files are not shown]\n", len(of.Changes)-i)
			break
		}
		b.WriteString(text)
	}
	return j.mask(b.String()), nil
}

// diffOf returns the diff of one file.
func (j *journal) diffOf(of call, c change) (string, error) {
	name := strings.ToValidUTF8(relative(of.Dir, c.Path), "\uFFFD")
	head := ""
	if shown := c.shown(of.Dir); shown.ModeBefore != "" {
		head = fmt.Sprintf("old mode %s\nnew mode %04o\n", shown.ModeBefore, c.After.Mode)
	}
	head = fmt.Sprintf("diff %s\n%s", name, head)
	if c.Before.same(c.After) && c.Before.Type == isFile {
		return head + "[another time]\n", nil
	}
	switch {
	case c.Before.Type == isDir:
		return head + "deleted directory\n", nil
	case c.After.Type == isDir:
		return head + "new directory\n", nil
	}
	before, why := j.content(of, c.Before, c.Path)
	after, whyAfter := j.content(of, c.After, c.Path)
	if why = cmp.Or(why, whyAfter); why != "" {
		return fmt.Sprintf("%s[%s: %d bytes before, %d after]\n", head, why, c.Before.Size, c.After.Size), nil
	}
	from, to := "a/"+strings.TrimPrefix(name, "/"), "b/"+strings.TrimPrefix(name, "/")
	if c.Before.Type == nothing {
		from = "/dev/null"
	}
	if c.After.Type == nothing {
		to = "/dev/null"
	}
	text, err := udiff.ToUnifiedDiff(from, to, before, udiff.Lines(before, after), diffContext)
	if err != nil {
		return "", err
	}
	return head + text.String(), nil
}

// content returns the text of a state: from the store, or from the file at its path if that has not changed. why
// says that the text cannot be shown.
func (j *journal) content(of call, s state, path string) (text, why string) {
	switch {
	case s.Type == nothing:
		return "", ""
	case s.Type == isPipe:
		return "", "a named pipe"
	case s.Type != isFile:
		return "", "not readable"
	case s.Size > maxDiffFile:
		return "", "too large to be shown"
	}
	b, err := os.ReadFile(j.store.path(s.Sum))
	if errors.Is(err, os.ErrNotExist) {
		b, err = still(of, s, path)
	}
	switch {
	case err != nil:
		return "", "what it became is not known any more"
	case !utf8.Valid(b) || strings.Contains(string(b[:min(len(b), 8<<10)]), "\x00"):
		return "", "not a text"
	}
	return string(b), ""
}

// still returns the content of the file at the path, if the file still has it.
func still(of call, s state, path string) ([]byte, error) {
	user, err := userOf(of.Rights)
	if err != nil {
		return nil, err
	}
	f, err := bareBox{user}.open(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != s.Size {
		return nil, os.ErrNotExist
	}
	var b bytes.Buffer
	now, err := stateOf(sandbox.Content{File: f}, &b)
	if err == nil && now.Sum != s.Sum {
		err = os.ErrNotExist
	}
	return b.Bytes(), err
}

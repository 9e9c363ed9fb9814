package search

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

// Line is a line of a file, for tools of other packages. Its text is shortened as in the answers of Grep.
type Line struct {
	Path   string // physical
	Number int64  // from 1
	Text   string
}

// Found is the result of a search of lines, sorted by path and number.
type Found struct {
	Lines   []Line
	Full    bool // the search stopped early, because a bound was reached
	Partial int  // files that were not searched to their end
	Refused int  // directories that were not searched, and ignore files not read

	Withheld int // files with matching lines that policies withhold from the call
}

// FindLines searches the lines of a file, or of the files below a directory, as Grep does. It skips files that the
// settings deny, that policies withhold from the call or that git ignores, and hidden and binary files.
func FindLines(ctx context.Context, in tool.In, box sandbox.Box, root guard.PathUse, pattern string) (Found, error) {
	q, err := newQuery(grepArgs{Pattern: pattern, Mode: "content"})
	if err != nil {
		return Found{}, err
	}
	if err := toolkit.Need(ctx, q.bytes()); err != nil {
		return Found{}, err
	}
	res, err := search(ctx, in, box, root, q)
	if err != nil {
		return Found{}, err
	}
	slices.SortFunc(res.hits, func(a, b hits) int { return strings.Compare(a.path, b.path) })
	found := Found{Full: res.full, Partial: res.partial, Refused: res.refused, Withheld: res.withheld}
	for _, h := range res.hits {
		for _, l := range h.lines {
			found.Lines = append(found.Lines, Line{h.path, l.number, l.text})
		}
	}
	return found, nil
}

// Bounds of ReadLines.
const (
	maxLinesFile = 64 << 20 // bytes of a file up to the line
	maxWholeLine = 64 << 10 // bytes of a line; the rest is dropped
	lineBuffer   = 64 << 10
)

// ReadLines returns lines of a file by their numbers from 1: each without its line break, and at most its first 64 KiB.
// A number beyond the end of the file is missing in the answer.
func ReadLines(ctx context.Context, box sandbox.Box, u guard.PathUse, numbers ...int64) (map[int64]string, error) {
	f, info, err := toolkit.Open(ctx, box, u)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hold := budget.Of(ctx).Part()
	defer hold.Release()
	if err := hold.Take(lineBuffer + int64(len(numbers))*maxWholeLine); err != nil {
		return nil, err
	}
	src := &io.LimitedReader{R: f, N: min(info.Size(), maxLinesFile)}
	if info.Size() == 0 { // a file of /proc
		src.N = maxLinesFile
	}
	r := bufio.NewReaderSize(src, lineBuffer)
	wanted, last := map[int64]bool{}, int64(0)
	for _, n := range numbers {
		wanted[n], last = true, max(last, n)
	}
	lines := map[int64]string{}
	for n := int64(1); n <= last; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		line, err := wholeLine(r, wanted[n])
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, toolkit.FileError("read", u, err)
		}
		if wanted[n] && (err == nil || line != "") {
			lines[n] = strings.TrimSuffix(line, "\r")
		}
		if err == nil {
			continue
		}
		if info.Size() > maxLinesFile {
			return nil, &tool.Error{
				Code: "file_too_large",
				Msg:  fmt.Sprintf("%s has more than %d MB before line %d", u.Raw, maxLinesFile>>20, last),
				Hint: "Read shows a part of a large file",
			}
		}
		break
	}
	return lines, nil
}

// wholeLine reads up to the end of a line. It returns the beginning of the line if keep is true.
func wholeLine(r *bufio.Reader, keep bool) (string, error) {
	var b strings.Builder
	for {
		piece, err := r.ReadSlice('\n')
		if keep {
			b.Write(piece[:min(len(piece), maxWholeLine-b.Len())])
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimSuffix(b.String(), "\n"), err
		}
	}
}

// ReadWhole returns the text of a file. A file of more than so many bytes is an error.
func ReadWhole(ctx context.Context, box sandbox.Box, u guard.PathUse, most int64) (string, error) {
	f, info, err := toolkit.Open(ctx, box, u)
	if err != nil {
		return "", err
	}
	defer f.Close()
	tooLarge := &tool.Error{
		Code: "file_too_large", Msg: fmt.Sprintf("%s has more than %d bytes", u.Raw, most), Hint: "Grep searches it",
	}
	if info.Size() > most {
		return "", tooLarge
	}
	const factor = 4 // times the size of the file, for its text and the message about it
	if err := toolkit.Need(ctx, factor*info.Size()); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, info.Size()+1))
	switch {
	case err != nil:
		return "", toolkit.FileError("read", u, err)
	case int64(len(b)) > info.Size(): // the file grew
		return "", tooLarge
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}

// WalkFiles calls visit for each regular file below a directory that is not ignored or hidden, until visit returns
// false. It does not open these files: it also gives binary files and files that the settings deny, so callers must
// not show their names.
func WalkFiles(ctx context.Context, box sandbox.Box, root string,
	visit func(path string, modified, size, inode int64) bool,
) error {
	t := &tree{box: box}
	u := guard.PathUse{Raw: root, Path: root, Op: guard.Read}
	return t.walk(ctx, u, func(e entry) error {
		var st unix.Stat_t
		if unix.Fstatat(int(e.dir.Fd()), e.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return nil // the file was removed
		}
		if !visit(e.path, st.Mtim.Nano(), st.Size, int64(st.Ino)) {
			return errStop
		}
		return nil
	})
}

// ShowLine returns a line in a form that can be shown: valid UTF-8, shortened.
func ShowLine(text string) string { return showHit([]byte(text)) }

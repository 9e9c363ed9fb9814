package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

const (
	defaultLines = 2000
	maxReadText  = 1 << 20  // bytes of text one call returns at most
	maxTyped     = 10 << 20 // bytes of an image or PDF
)

// Read shows a file: text with line numbers, images and PDFs as typed content,
// notebooks by cell.
type Read struct{ seen *seen }

type readArgs struct {
	FilePath string `json:"file_path"`
	Offset   int64  `json:"offset"`
	Limit    *int64 `json:"limit"`
}

// Spec implements [tool.Tool].
func (Read) Spec() tool.Spec {
	return tool.Spec{
		Name: "Read",
		Description: "Reads a file. " +
			"Text is returned with line numbers (number, tab, line), 2000 lines unless limit is given; " +
			"images and PDFs are returned as such, notebooks cell by cell.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"file_path":{"type":"string","description":"the file; absolute, relative to the working directory, or with ~"},
"offset":{"type":"integer",
	"description":"how many lines to skip (0 is the first line); negative: start that many lines before the end"},
"limit":{"type":"integer","minimum":1,"description":"how many lines to return (default 2000)"}},
"required":["file_path"],"additionalProperties":false}`),
		Class: tool.ClassRead, ReadOnly: true, Origin: tool.OriginRepository,
		Annotations: &tool.Annotations{ReadOnly: true, Idempotent: true},
		OutputLimit: 100_000,
		Returns:     &tool.Returns{Type: "string", Note: "numbered lines"},
	}
}

// Uses implements [tool.Tool].
func (Read) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[readArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	u, err := toolkit.Path(in, args.FilePath, guard.Read)
	return guard.Uses{Paths: []guard.PathUse{u}}, err
}

// readData is the part of the result that only clients get; the model gets a text made from it.
type readData struct {
	FilePath  string   `json:"file_path"`
	Content   string   `json:"content"`
	StartLine int64    `json:"start_line"` // 1-based; negative when counted from the end
	NumLines  int64    `json:"num_lines"`
	More      bool     `json:"more"` // more lines follow
	Notes     []string `json:"notes,omitempty"`
}

// Run implements [tool.Tool].
func (r Read) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[readArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	u, err := toolkit.Judged(in, args.FilePath, guard.Read)
	if err != nil {
		return tool.Output{}, err
	}
	f, info, err := toolkit.Open(ctx, box, u)
	if err != nil {
		return tool.Output{}, err
	}
	defer f.Close()
	head := make([]byte, toolkit.SniffSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return tool.Output{}, toolkit.FileError("read", u, err)
	}
	kind := toolkit.Sniff(head[:n])
	if err := toolkit.Need(ctx, readBytes(kind, u, args, info.Size())); err != nil {
		return tool.Output{}, err
	}
	switch {
	case kind.MIME != "":
		return typed(f, u, kind.MIME, info.Size())
	case kind.Encoding == "binary":
		return tool.Output{}, &tool.Error{
			Code: "binary_file", Msg: fmt.Sprintf("%s is a binary file of %d bytes", u.Raw, info.Size()),
			Hint: "use Bash with file, xxd or strings to look into it",
		}
	case isNotebook(u, args):
		out, ok, err := readNotebook(ctx, f, u)
		if ok {
			r.seen.record(in.Session, u.Path, info)
		}
		if ok || err != nil {
			return out, err
		}
	}
	data, err := readText(ctx, f, kind, args)
	if err != nil {
		return tool.Output{}, toolkit.FileError("read", u, err)
	}
	data.FilePath = u.Path
	r.seen.record(in.Session, u.Path, info)
	return tool.Output{Data: data, Text: data.text()}, nil
}

// readBytes returns how many bytes of memory it takes to show a file.
func readBytes(kind toolkit.Kind, u guard.PathUse, args readArgs, size int64) int64 {
	const buffers = 256 << 10
	switch {
	case kind.MIME != "":
		return buffers + min(size, maxTyped)
	case isNotebook(u, args):
		return buffers + 6*min(size, maxNotebook) // the file, its cells, their text
	}
	return buffers + 4*min(size, maxReadText) // lines, and the same with numbers
}

func isNotebook(u guard.PathUse, args readArgs) bool {
	return strings.HasSuffix(u.Path, ".ipynb") && args.Offset == 0 && args.Limit == nil
}

// typed returns a whole image or PDF as content of its type.
func typed(f *os.File, u guard.PathUse, mime string, size int64) (tool.Output, error) {
	if size > maxTyped {
		return tool.Output{}, &tool.Error{
			Code: "file_too_large",
			Msg:  fmt.Sprintf("%s is %s of %d bytes, the most is %d", u.Raw, mime, size, maxTyped),
			Hint: "make a smaller copy with Bash",
		}
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return tool.Output{}, toolkit.FileError("read", u, err)
	}
	part := tool.Content{Type: "image", Data: b, MIMEType: mime}
	if mime == "application/pdf" {
		part = tool.Content{Type: "resource", Data: b, MIMEType: mime, URI: "file://" + u.Path, Name: u.Raw}
	}
	note := fmt.Sprintf("%s: %s, %d bytes", u.Raw, mime, len(b))
	return tool.Output{
		Data:    map[string]any{"file_path": u.Path, "mime_type": mime, "bytes": len(b)},
		Content: []tool.Content{{Type: "text", Text: note}, part},
	}, nil
}

// readText reads the requested lines in one pass over the file, in a fixed amount of memory.
func readText(ctx context.Context, f *os.File, kind toolkit.Kind, args readArgs) (readData, error) {
	limit := int64(defaultLines)
	if args.Limit != nil {
		limit = *args.Limit
	}
	data := readData{StartLine: args.Offset + 1}
	if args.Offset < 0 {
		back, err := seekLinesBack(ctx, f, -args.Offset)
		if err != nil {
			return data, err
		}
		data.StartLine = -back
		args.Offset = 0
	} else if _, err := f.Seek(0, io.SeekStart); err != nil {
		return data, err
	}
	var src io.Reader = ctxReader{ctx, f}
	if data.StartLine > 0 {
		src = kind.Text(src)
	}
	in := bufio.NewReaderSize(src, 64<<10)
	odd := oddities{kind: kind}
	skipped, err := skipLines(in, args.Offset)
	if err != nil {
		return data, err
	}
	if _, err := in.Peek(1); err != nil && args.Offset > 0 {
		return data, &tool.Error{
			Code: "offset_past_end",
			Msg:  fmt.Sprintf("offset %d is past the end: the file has %d lines", args.Offset, skipped),
			Hint: "use a smaller offset",
		}
	}
	var b strings.Builder
	for data.NumLines < limit && b.Len() < maxReadText {
		line, whole, err := readLine(in)
		if err != nil {
			return data, err
		}
		if line == nil {
			break
		}
		odd.long = odd.long || !whole
		if data.NumLines > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(odd.showLine(line))
		data.NumLines++
	}
	if _, err := in.Peek(1); err == nil {
		data.More = true
	}
	data.Content, data.Notes = b.String(), odd.notes()
	return data, nil
}

// text returns the numbered lines, and remarks on what they do not show.
func (d readData) text() string {
	var b strings.Builder
	if d.NumLines > 0 {
		for i, line := range strings.Split(d.Content, "\n") {
			fmt.Fprintf(&b, "%d\t%s\n", d.StartLine+int64(i), line)
		}
	}
	notes := d.Notes
	if d.NumLines == 0 && d.StartLine == 1 {
		notes = append([]string{"the file is empty"}, notes...)
	}
	if d.More {
		next := fmt.Sprintf("offset %d", d.StartLine-1+d.NumLines)
		if d.StartLine < 0 {
			next = fmt.Sprintf("offset %d", d.StartLine+d.NumLines)
		}
		notes = append([]string{"more lines follow; read on with " + next}, notes...)
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "[note: %s]\n", n)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// skipLines skips n lines and returns how many there were.
func skipLines(in *bufio.Reader, n int64) (int64, error) {
	var skipped int64
	open := false // bytes follow the last newline
	for skipped < n {
		chunk, err := in.Peek(max(in.Buffered(), 1))
		if err == io.EOF {
			if open {
				skipped++
			}
			return skipped, nil
		}
		if err != nil {
			return skipped, err
		}
		here := int64(bytes.Count(chunk, []byte{'\n'}))
		if skipped+here < n {
			skipped += here
			open = chunk[len(chunk)-1] != '\n'
			if _, err := in.Discard(len(chunk)); err != nil {
				return skipped, err
			}
			continue
		}
		for skipped < n {
			i := bytes.IndexByte(chunk, '\n')
			if _, err := in.Discard(i + 1); err != nil {
				return skipped, err
			}
			chunk = chunk[i+1:]
			skipped++
		}
	}
	return skipped, nil
}

// readLine returns a line without its newline, or nil at the end of the file. If the line is longer than the buffer,
// its rest is skipped and whole is false.
func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	line, err = in.ReadSlice('\n')
	switch err {
	case nil:
		return line[:len(line)-1], true, nil
	case io.EOF:
		if len(line) == 0 {
			return nil, true, nil
		}
		return line, true, nil
	case bufio.ErrBufferFull:
		line = bytes.Clone(line)
		for err == bufio.ErrBufferFull {
			_, err = in.ReadSlice('\n')
		}
		if err == io.EOF {
			err = nil
		}
		return line, false, err
	}
	return nil, false, err
}

// seekLinesBack seeks to the start of the n-th line from the end. It returns how many lines follow, which is fewer
// than n in a shorter file.
func seekLinesBack(ctx context.Context, f *os.File, n int64) (int64, error) {
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	lines := int64(0)
	last := true // after the newline that ends the file no line begins
	for end := at; end > 0; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := max(end-int64(len(buf)), 0)
		chunk := buf[:end-start]
		if _, err := f.ReadAt(chunk, start); err != nil && err != io.EOF {
			return 0, err
		}
		for i := len(chunk); i > 0; {
			i = bytes.LastIndexByte(chunk[:i], '\n')
			if i < 0 {
				break
			}
			if last && start+int64(i) == at-1 {
				last = false
				continue
			}
			if lines++; lines == n {
				_, err := f.Seek(start+int64(i)+1, io.SeekStart)
				return lines, err
			}
		}
		end = start
	}
	if at > 0 {
		lines++
	}
	_, err = f.Seek(0, io.SeekStart)
	return lines, err
}

// ctxReader stops reading when the call is cancelled.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/tools/toolkit"
	"github.com/sandboxd/sandboxd/sandbox"
)

const (
	maxEdit   = 256 << 20 // bytes of a file that is changed in memory
	editSlack = 4 << 10   // room for a file to grow in its buffer
	maxPlaces = 5_000_000 // replacements in one call
)

// Edit replaces text in a file, exactly.
type Edit struct{ seen *seen }

type editArgs struct {
	FilePath   string `json:"file_path"`
	OldString  string `json:"old_string"`
	NewString  string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all"`
}

// Spec implements [tool.Tool].
func (Edit) Spec() tool.Spec {
	return tool.Spec{
		Name: "Edit",
		Description: "Replaces old_string by new_string in a file. " +
			"old_string must be in the file exactly as given, white space included, " +
			"and only once unless replace_all is true. " +
			"The answer is a unified diff.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"file_path":{"type":"string","description":"the file; absolute, relative to the working directory, or with ~"},
"old_string":{"type":"string","description":"the text to replace, without the line numbers that Read shows"},
"new_string":{"type":"string","description":"the text to put there; must differ"},
"replace_all":{"type":"boolean","description":"replace every occurrence (default false)"}},
"required":["file_path","old_string","new_string"],"additionalProperties":false}`),
		Class:       tool.ClassWrite,
		Annotations: &tool.Annotations{},
		Returns:     &tool.Returns{Type: "string", Note: "unified diff"},
	}
}

// Uses implements [tool.Tool]: an edit reads the file and writes it.
func (Edit) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[editArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	return readWrite(in, args.FilePath)
}

func readWrite(in tool.In, raw string) (guard.Uses, error) {
	u, err := toolkit.Path(in, raw, guard.Read)
	if err != nil {
		return guard.Uses{}, err
	}
	w := u
	w.Op = guard.Write
	return guard.Uses{Paths: []guard.PathUse{u, w}}, nil
}

// Run implements [tool.Tool].
func (e Edit) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[editArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	doc, err := openDocument(ctx, in, box, args.FilePath)
	if err != nil {
		return tool.Output{}, err
	}
	places, old, text, err := findPlaces(doc.content, args)
	if err != nil {
		return tool.Output{}, err
	}
	changed := e.seen.changed(in.Session, doc.read.Path, doc.info)
	diff := diffAt(toolkit.Shown(in.Dir, doc.read.Path), doc.content, places, len(old), text)
	if err := doc.save(ctx, box, replaceAt(doc.content, places, len(old), text)); err != nil {
		return tool.Output{}, err
	}
	if after := look(ctx, box, doc.read); after != nil {
		e.seen.record(in.Session, doc.read.Path, after)
	}
	out := fmt.Sprintf("replaced %d in %s\n%s", len(places), args.FilePath, diff)
	if changed {
		out += "[note: the file had been changed since this session read it; read it again before the next edit]\n"
	}
	return tool.Output{
		Data: map[string]any{
			"file_path": doc.read.Path, "replacements": len(places), "diff": diff,
			"changed_since_read": changed,
		},
		Text: out,
	}, nil
}

// document is a file that is read, changed in memory and written back.
type document struct {
	read, write guard.PathUse
	info        os.FileInfo
	content     []byte
}

func openDocument(ctx context.Context, in tool.In, box sandbox.Box, raw string) (*document, error) {
	d := &document{}
	var err error
	if d.read, err = toolkit.Judged(in, raw, guard.Read); err != nil {
		return nil, err
	}
	if d.write, err = toolkit.Judged(in, raw, guard.Write); err != nil {
		return nil, err
	}
	f, info, err := toolkit.Open(ctx, box, d.read)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d.info = info
	if info.Size() > maxEdit {
		return nil, &tool.Error{
			Code: "file_too_large",
			Msg:  fmt.Sprintf("%s has %d bytes, the most that can be edited is %d", raw, info.Size(), maxEdit),
			Hint: "use Bash with sed",
		}
	}
	// The memory for the content, and for the changed content if that does not fit into the same buffer.
	if err := toolkit.Need(ctx, 2*info.Size()+editSlack+int64(len(in.Args))); err != nil {
		return nil, err
	}
	d.content = make([]byte, info.Size(), info.Size()+editSlack)
	if _, err := io.ReadFull(ctxReader{ctx, f}, d.content); err != nil {
		if ctx.Err() == nil && (err == io.EOF || err == io.ErrUnexpectedEOF) {
			return nil, changedUnderUs(raw)
		}
		return nil, toolkit.FileError("read", d.read, err)
	}
	return d, approved(in, d.read, d.content)
}

// save writes the new content, unless the file changed on the disk in the meantime.
func (d *document) save(ctx context.Context, box sandbox.Box, content []byte) error {
	now := look(ctx, box, d.read)
	if now == nil || !os.SameFile(now, d.info) || now.Size() != d.info.Size() ||
		!now.ModTime().Equal(d.info.ModTime()) {
		return changedUnderUs(d.read.Raw)
	}
	if err := sandbox.WriteFile(ctx, box, d.write, content, permOf(d.info)); err != nil {
		return toolkit.FileError("write", d.write, err)
	}
	return nil
}

// approved refuses the edit if a person approved the call for other content. A file that was too large to be hashed
// for the question is not compared.
func approved(in tool.In, u guard.PathUse, content []byte) error {
	want, asked := in.Approved[u.Path]
	sum := sha256.Sum256(content)
	if !asked || want == hex.EncodeToString(sum[:]) || want != tool.Absent && len(want) != 2*len(sum) {
		return nil
	}
	return notApproved(u)
}

func notApproved(u guard.PathUse) error {
	return &tool.Error{
		Code: "approval_stale", Msg: u.Raw + " changed after a person approved the call; nothing was written",
		Hint: "read it again and repeat the call",
	}
}

func changedUnderUs(raw string) error {
	return &tool.Error{
		Code: "file_changed", Msg: raw + " was changed by somebody else during the edit; nothing was written",
		Hint: "read it again and repeat the edit",
	}
}

// findPlaces returns the byte offsets of the old text. In a file with CRLF line ends it also finds text with plain
// line feeds, and writes CRLF again. old and text are what is really searched for and inserted.
func findPlaces(content []byte, args editArgs) (places []int, old, text []byte, err error) {
	old, text = []byte(args.OldString), []byte(args.NewString)
	switch {
	case len(old) == 0:
		return nil, nil, nil, &tool.Error{
			Code: "old_string_empty", Msg: "old_string is empty",
			Hint: "give the text to replace; Write makes a new file",
		}
	case bytes.Equal(old, text):
		return nil, nil, nil, &tool.Error{
			Code: "no_change", Msg: "old_string and new_string are the same",
			Hint: "nothing needs to be done, or new_string is not what you meant",
		}
	}
	places = occurrences(content, old, args.ReplaceAll)
	if len(places) == 0 && bytes.Contains(content, []byte("\r\n")) && !bytes.Contains(old, []byte("\r")) {
		crlf := bytes.ReplaceAll(old, []byte("\n"), []byte("\r\n"))
		if found := occurrences(content, crlf, args.ReplaceAll); len(found) > 0 {
			places, old = found, crlf
			text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
		}
	}
	if len(places) == 0 {
		return nil, nil, nil, notFound(content, args.OldString)
	}
	if !args.ReplaceAll && len(places) > 1 {
		return nil, nil, nil, notUnique(content, places)
	}
	if len(places) >= maxPlaces || len(content)+len(places)*(len(text)-len(old)) > maxEdit {
		return nil, nil, nil, &tool.Error{
			Code: "change_too_large", Msg: fmt.Sprintf(
				"old_string is in the file %d times or more; the changed file would be too large", len(places),
			),
			Hint: "use Bash with sed",
		}
	}
	return places, old, text, nil
}

// occurrences finds old in content. If one replacement is asked for, overlapping places count: aa stands twice in
// aaa, and a replacement of one of them would be a guess. If all are asked for, each place begins after the end of
// the one before.
func occurrences(content, old []byte, all bool) []int {
	limit, step := 1000, 1
	if all {
		limit, step = maxPlaces, len(old)
	}
	var places []int
	rare := rarest(content, old)
	for at := 0; len(places) < limit; {
		i := index(content[at:], old, rare)
		if i < 0 {
			break
		}
		places = append(places, at+i)
		at += i + step
	}
	return places
}

// rarest returns the position in old of the byte that is rarest at the start of content.
func rarest(content, old []byte) int {
	var count [256]int
	for _, c := range content[:min(len(content), 16<<10)] {
		count[c]++
	}
	rare := 0
	for i, c := range old {
		if count[c] < count[old[rare]] {
			rare = i
		}
	}
	return rare
}

// index does the same as bytes.Index, and is several times faster in a large file because it searches for the rare
// byte of old. If that byte turns out not to be rare, it calls bytes.Index for the rest.
func index(content, old []byte, rare int) int {
	at := 0 // no match begins before this offset
	for range 1000 {
		if at+rare >= len(content) {
			return -1
		}
		i := bytes.IndexByte(content[at+rare:], old[rare])
		if i < 0 {
			return -1
		}
		at += i
		if bytes.HasPrefix(content[at:], old) {
			return at
		}
		at++
	}
	if i := bytes.Index(content[at:], old); i >= 0 {
		return at + i
	}
	return -1
}

// replaceAt makes the replacements. The caller must not use content afterwards: one replacement that fits is made in
// place, because a second buffer of that size costs more than everything else.
func replaceAt(content []byte, places []int, size int, text []byte) []byte {
	grown := len(places) * (len(text) - size)
	if len(places) == 1 && len(content)+grown <= cap(content) {
		tail := content[places[0]+size:]
		content = content[:len(content)+grown]
		copy(content[places[0]+len(text):], tail)
		copy(content[places[0]:], text)
		return content
	}
	next := make([]byte, 0, len(content)+grown)
	at := 0
	for _, p := range places {
		next = append(next, content[at:p]...)
		next = append(next, text...)
		at = p + size
	}
	return append(next, content[at:]...)
}

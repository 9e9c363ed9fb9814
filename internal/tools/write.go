package tools

import (
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

// Write creates a file or replaces the whole content of one.
type Write struct{ seen *seen }

type writeArgs struct {
	FilePath string `json:"file_path"`
	Content  string `json:"content"`
}

// Spec implements [tool.Tool].
func (Write) Spec() tool.Spec {
	return tool.Spec{
		Name: "Write",
		Description: "Writes a file with exactly this content; missing parent directories are made. " +
			"An existing file is replaced at once or not at all, and keeps its mode. " +
			"To change a part of a file use Edit.",
		Schema: json.RawMessage(`{"type":"object","properties":{
"file_path":{"type":"string","description":"the file; absolute, relative to the working directory, or with ~"},
"content":{"type":"string","description":"the whole new content"}},
"required":["file_path","content"],"additionalProperties":false}`),
		Class:       tool.ClassWrite,
		Annotations: &tool.Annotations{Idempotent: true},
		Returns:     &tool.Returns{Type: "string", Note: "what was written"},
	}
}

// Uses implements [tool.Tool]. It says that the old content is lost unless git has it. Package pipeline drops this
// for a file that a call of the session made and that nobody else has changed.
func (Write) Uses(_ context.Context, in tool.In) (guard.Uses, error) {
	args, err := tool.Decode[writeArgs](in)
	if err != nil {
		return guard.Uses{}, err
	}
	u, err := toolkit.Path(in, args.FilePath, guard.Write)
	if err != nil {
		return guard.Uses{}, err
	}
	uses := guard.Uses{Paths: []guard.PathUse{u}}
	if in.Rules.Unsaved(u.Path) {
		uses.Losses = []guard.Loss{{Use: 0, Path: u.Path}}
	}
	return uses, nil
}

// Run implements [tool.Tool].
func (w Write) Run(ctx context.Context, in tool.In, box sandbox.Box) (tool.Output, error) {
	args, err := tool.Decode[writeArgs](in)
	if err != nil {
		return tool.Output{}, err
	}
	u, err := toolkit.Judged(in, args.FilePath, guard.Write)
	if err != nil {
		return tool.Output{}, err
	}
	if strings.HasSuffix(args.FilePath, "/") {
		return tool.Output{}, &tool.Error{
			Code: "is_directory", Msg: fmt.Sprintf("%s names a directory", args.FilePath),
			Hint: "name the file",
		}
	}
	before := look(ctx, box, u)
	if before != nil && !before.Mode().IsRegular() {
		return tool.Output{}, &tool.Error{
			Code: "not_a_file", Msg: fmt.Sprintf("%s exists and is not a regular file", u.Raw),
			Hint: "name a file",
		}
	}
	if err := replaces(ctx, in, box, u, before); err != nil {
		return tool.Output{}, err
	}
	changed := before != nil && w.seen.changed(in.Session, u.Path, before)
	if err := sandbox.WriteFile(ctx, box, u, []byte(args.Content), permOf(before)); err != nil {
		return tool.Output{}, toolkit.FileError("write", u, err)
	}
	if after := look(ctx, box, u); after != nil {
		w.seen.record(in.Session, u.Path, after)
	}
	verb := "created"
	if before != nil {
		verb = "replaced"
	}
	lines := strings.Count(args.Content, "\n")
	if args.Content != "" && !strings.HasSuffix(args.Content, "\n") {
		lines++
	}
	text := fmt.Sprintf("%s %s: %d lines, %d bytes", verb, u.Raw, lines, len(args.Content))
	if changed {
		text += "\n[note: the file had been changed since this session read it; that state is gone]"
	}
	return tool.Output{
		Data: map[string]any{
			"file_path": u.Path, "type": verb, "lines": lines, "bytes": len(args.Content),
			"changed_since_read": changed,
		},
		Text: text,
	}, nil
}

// replaces refuses to replace a file that differs from what a person saw when they approved the call.
func replaces(ctx context.Context, in tool.In, box sandbox.Box, u guard.PathUse, before os.FileInfo) error {
	want, asked := in.Approved[u.Path]
	switch {
	case !asked || before == nil && want == tool.Absent:
		return nil
	case before == nil:
		return notApproved(u)
	case before.Size() > sandbox.MaxBound:
		return nil
	}
	u.Op = guard.Read
	f, err := box.Open(ctx, u, os.O_RDONLY)
	if err != nil {
		return toolkit.FileError("read", u, err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(ctxReader{ctx, f}, sandbox.MaxBound))
	if err != nil {
		return toolkit.FileError("read", u, err)
	}
	return approved(in, u, content)
}

// look returns information about the file, or nil if the box does not allow it to be opened.
func look(ctx context.Context, box sandbox.Box, u guard.PathUse) os.FileInfo {
	u.Op = guard.Read
	f, err := box.Open(ctx, u, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	return info
}

// permOf returns the mode of the written file: the old one, or the default of a new file.
func permOf(info os.FileInfo) os.FileMode {
	if info == nil {
		return 0o644
	}
	return info.Mode().Perm()
}

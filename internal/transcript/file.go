package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Metadata is what the first line of a file says of the session.
type Metadata struct {
	ID        string    `json:"id"`
	Dir       string    `json:"cwd"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	Messages  int       `json:"messageCount"`
	Title     string    `json:"title,omitempty"`
	Tag       string    `json:"tag,omitempty"`
	About
}

// About is what the client says of a conversation.
type About struct {
	Model       string `json:"model,omitempty"`
	Summary     string `json:"summary,omitempty"`
	FirstPrompt string `json:"firstPrompt,omitempty"`
	GitBranch   string `json:"gitBranch,omitempty"`
}

// A file is open, the metadata, head, the messages with between after each but the last, tail.
const (
	open    = `{"metadata":`
	head    = ",\n\"messages\":[\n"
	between = ",\n"
	tail    = "\n]}\n"
)

// maxHead is how long the first line may be. What is in it has bounds.
const maxHead = 256 << 10

// File is a transcript that is open. It is of one moment, whatever is saved meanwhile.
type File struct {
	Meta Metadata
	Size int64

	f interface {
		io.ReaderAt
		io.Closer
	}
	id, version string // of rows
	start, end  int64  // of the messages
}

// Read opens the transcript of a session. Without one the error is [fs.ErrNotExist]; one that
// is not as Write leaves it is transcript_corrupt.
func (d *Dir) Read(id string) (*File, error) {
	f, err := d.inside(filepath.Join(id, fileName), unix.O_RDONLY)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO):
		return nil, noFile(id)
	case err != nil:
		return nil, err
	}
	t := &File{f: f, id: id}
	err = t.regular(f)
	if err == nil {
		err = t.readHead()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

// Regular reports whether a new transcript may take the place of what the path names: nothing, or a
// file, also one that is damaged.
func (d *Dir) Regular(id string) bool {
	dir, err := os.Lstat(filepath.Join(d.path, id))
	if err != nil || !dir.IsDir() {
		return errors.Is(err, fs.ErrNotExist)
	}
	file, err := os.Lstat(filepath.Join(d.path, id, fileName))
	return errors.Is(err, fs.ErrNotExist) || err == nil && file.Mode().IsRegular()
}

// Close closes the file.
func (t *File) Close() error { return t.f.Close() }

// regular refuses what somebody else put there.
func (t *File) regular(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return noFile(t.id)
	}
	t.Size = info.Size()
	return nil
}

// readHead reads the first line and the end.
func (t *File) readHead() error {
	var text []byte
	for at := -1; at < 0; at = bytes.Index(text, []byte(head)) {
		if len(text) >= maxHead || int64(len(text)) >= t.Size {
			return corrupt(t.id, "its metadata are not whole")
		}
		more := make([]byte, min(max(4<<10, int64(len(text))), t.Size-int64(len(text))))
		if _, err := t.f.ReadAt(more, int64(len(text))); err != nil {
			return err
		}
		text = append(text, more...)
	}
	meta, _, _ := bytes.Cut(text, []byte(head))
	meta, ok := bytes.CutPrefix(meta, []byte(open))
	if !ok || json.Unmarshal(meta, &t.Meta) != nil || t.Meta.Messages < 0 {
		return corrupt(t.id, "its metadata are damaged")
	}
	t.start, t.end = int64(len(open)+len(meta)+len(head)), t.Size-int64(len(tail))
	last := make([]byte, len(tail))
	if _, err := t.f.ReadAt(last, max(t.end, 0)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(last) != tail || t.end < t.start || t.end == t.start != (t.Meta.Messages == 0) {
		return corrupt(t.id, "its end is missing")
	}
	return nil
}

// Whole reads all bytes of the transcript, as they are kept.
func (t *File) Whole() io.Reader { return io.NewSectionReader(t.f, 0, t.Size) }

package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Write writes a transcript of the first messages of old and of those that are added; a nil old
// has none. How many these are is put into the metadata. [New.Place] or [New.Drop] ends what
// it returns.
func (d *Dir) Write(meta Metadata, old *File, keep int, add []json.RawMessage) (New, error) {
	cut := int64(0)
	if keep > 0 {
		var err error
		if cut, err = old.endOf(keep); err != nil {
			return nil, err
		}
	}
	n, f, err := d.create()
	if err != nil {
		return nil, err
	}
	meta.Messages = keep + len(add)
	err = write(f, meta, old, cut, add)
	if err == nil {
		err = d.sync(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(noRoom(err), n.Drop())
	}
	return n, nil
}

// copyPart copies the messages before a place. From file to file the kernel does it by itself.
func copyPart(to io.Writer, old *File, cut int64) error {
	file, ok := old.f.(*os.File)
	if !ok {
		_, err := io.Copy(to, io.NewSectionReader(old.f, old.start, cut-old.start))
		return err
	}
	if _, err := file.Seek(old.start, io.SeekStart); err != nil {
		return err
	}
	_, err := io.CopyN(to, file, cut-old.start)
	return err
}

func write(f io.Writer, meta Metadata, old *File, cut int64, add []json.RawMessage) error {
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	w.WriteString(open) // the last write says what was wrong with each
	w.Write(text)
	w.WriteString(head)
	separator := ""
	if cut > 0 {
		if err := w.Flush(); err != nil {
			return err
		}
		if err := copyPart(f, old, cut); err != nil {
			return err
		}
		separator = between
	}
	var line bytes.Buffer
	for _, m := range add {
		line.Reset()
		if err := json.Compact(&line, m); err != nil {
			return err
		}
		w.WriteString(separator)
		w.Write(line.Bytes())
		separator = between
	}
	w.WriteString(tail)
	return w.Flush()
}

package guard

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse"
)

const (
	maxArchive  = 32 << 20 // bytes of an archive, packed and unpacked
	maxUnpacked = 4096     // names in one
)

var errLong = errors.New("the archive is too long to be read")

// unpacked adds the files that an archive replaces. Of one that is not there, or of an unknown form, nothing is known.
// One that is too long, and one of tracked files, replaces whatever has changed in the directory.
func (l *losses) unpacked(x shellparse.Unpack) {
	dir := l.known(x.Dir)
	if dir == "" || l.git.names.hides(dir) {
		return
	}
	var names []string
	err := errLong
	if !x.Tracked {
		archive := l.known(x.Archive)
		if archive == "" || l.git.names.hides(archive) {
			return
		}
		var data []byte
		if data, err = l.git.read(archive, maxArchive); err == nil {
			names, err = namesIn(data)
		} else if l.git.holds(archive) && !errors.Is(err, errLong) {
			err = errLong
		}
	}
	if errors.Is(err, errLong) {
		names, x.Strip = append(names, l.git.below(dir)...), 0
	}
	for _, name := range names {
		for range x.Strip {
			_, name, _ = strings.Cut(name, "/")
		}
		if name = path.Clean("/" + name); name != "/" {
			l.add(filepath.Join(dir, name), dir)
		}
	}
}

// below are the tracked files of a directory that git could not bring back.
func (t *tracker) below(dir string) (names []string) {
	top := t.top(dir, true)
	if top == "" {
		return nil
	}
	below := strings.TrimPrefix(strings.TrimPrefix(dir, top), "/")
	r := t.repository(top)
	for i := range r.indexes {
		list := r.indexes[i].Below(below)
		for _, name := range list[:min(len(list), maxUnpacked)] {
			names = append(names, strings.TrimPrefix(strings.TrimPrefix(name, below), "/"))
		}
	}
	return names
}

// namesIn are those of the files of a tar or zip archive.
func namesIn(data []byte) (names []string, err error) {
	if z, err := zip.NewReader(bytes.NewReader(data), int64(len(data))); err == nil {
		for _, f := range z.File {
			if len(names) == maxUnpacked {
				return names, errLong
			}
			names = append(names, f.Name)
		}
		return names, nil
	}
	in := bufio.NewReader(bytes.NewReader(data))
	var plain io.Reader = in
	switch begin, _ := in.Peek(3); {
	case bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		if plain, err = gzip.NewReader(in); err != nil {
			return nil, err
		}
	case string(begin) == "BZh":
		plain = bzip2.NewReader(in)
	}
	limited := &io.LimitedReader{R: plain, N: maxArchive}
	for t := tar.NewReader(limited); ; {
		h, err := t.Next()
		switch {
		case limited.N == 0 || len(names) == maxUnpacked:
			return names, errLong
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return names, err
		case h.Typeflag != tar.TypeDir:
			names = append(names, h.Name)
		}
	}
}

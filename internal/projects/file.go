package projects

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sandboxd/sandboxd/internal/strictjson"
	"github.com/sandboxd/sandboxd/internal/tool"
)

// maxFile bounds the list: what is larger was not written by this package.
const maxFile = 1 << 20

// document is the file.
type document struct {
	Projects []Project `json:"projects"`
}

// read reads the list; there is none yet where there is no file.
func read(file string) ([]Project, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of projects: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the list of projects: %w", err)
	}
	var d document
	if err = strictjson.CheckFolded(text); err == nil {
		err = strictjson.Decode(text, &d)
	}
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return nil, &tool.Error{
			Code: "projects_damaged", Msg: fmt.Sprintf("the list of projects %s cannot be read: %v", file, err),
			Hint: "mend it, or move it away and allow the projects again",
		}
	}
	return d.Projects, nil
}

// check refuses paths that Allow never writes, for a person may have edited the file. It does not say whether agents
// may work there: Use does.
func (d document) check() error {
	for _, p := range d.Projects {
		if !filepath.IsAbs(p.Dir) || filepath.Clean(p.Dir) != p.Dir || p.Dir == "/" {
			return fmt.Errorf("%q cannot be a project", p.Dir)
		}
	}
	return nil
}

// write replaces the file at once; a crash leaves the old list or the new one.
func write(file string, kept []Project) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the list of projects: %w", err)
		}
	}()
	text, err := json.MarshalIndent(document{kept}, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".projects-") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

package transcript_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
)

// TestTextsAboutASessionAreBounded, each by its own bound.
func TestTextsAboutASessionAreBounded(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		about transcript.About
		want  string
	}{
		{transcript.About{Model: x(256), GitBranch: x(256), Summary: x(4096), FirstPrompt: x(1024)}, ""},
		{transcript.About{Model: x(257)}, "metadata.model has 257 bytes, 256 at most"},
		{transcript.About{GitBranch: x(257)}, "metadata.git_branch has 257 bytes, 256 at most"},
		{transcript.About{Summary: x(4097)}, "metadata.summary has 4097 bytes, 4096 at most"},
		{transcript.About{FirstPrompt: x(1025)}, "metadata.first_prompt has 1025 bytes, 1024 at most"},
	} {
		err := tt.about.Check()
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("got %v, want %q", err, tt.want)
		}
		if e, ok := errors.AsType[*tool.Error](err); ok && (e.Code != "validation_error" || e.Hint == "") {
			t.Errorf("got %+v", e)
		}
	}
}

// TestSizesAndUseOfADirectory: of the transcripts in it, and of nothing else.
func TestSizesAndUseOfADirectory(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	save(t, d, "a", nil, 0, said(1)...)
	save(t, d, "b", nil, 0, said(3)...)
	want := map[string]int64{}
	var total int64
	for _, id := range []string{"a", "b"} {
		found, err := filepath.Glob(filepath.Join(path, id, "*"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		info, err := os.Stat(found[0])
		if err != nil {
			t.Fatal(err)
		}
		want[id], total = info.Size(), total+info.Size()
		if id == "b" { // a link and a directory without a transcript are none
			if err := errors.Join(os.MkdirAll(filepath.Join(path, "c"), 0o700),
				os.MkdirAll(filepath.Join(path, "d"), 0o700),
				os.Symlink(found[0], filepath.Join(path, "d", filepath.Base(found[0])))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if files, bytes := transcript.Use(path); files != 2 || bytes != total {
		t.Errorf("%d files with %d bytes, want 2 with %d", files, bytes, total)
	}
	sizes, err := d.Sizes(t.Context())
	delete(sizes, "d")
	if err != nil || !maps.Equal(sizes, want) {
		t.Errorf("the sizes are %v, %v, want %v", sizes, err, want)
	}
	if ids, err := d.IDs(); err != nil || !slices.Equal(ids, []string{"a", "b", "c", "d"}) {
		t.Errorf("the sessions are %q, %v", ids, err)
	}
	if err := d.Remove("b"); err != nil {
		t.Fatal(err)
	}
	if files, _ := transcript.Use(path); files != 1 {
		t.Errorf("%d files are left, want 1", files)
	}
}

// TestOneSavesAtATime: the next one of the same session waits, one of another does not.
func TestOneSavesAtATime(t *testing.T) {
	d := open(t, t.TempDir())
	var order []string
	unlock := d.Lock("a")
	d.Lock("b")()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer d.Lock("a")()
		order = append(order, "second")
	}()
	order = append(order, "first")
	unlock()
	<-done
	if got := fmt.Sprint(order); got != "[first second]" {
		t.Errorf("got %s", got)
	}
}

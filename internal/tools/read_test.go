package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/guard"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/internal/tools/toolstest"
	"github.com/sandboxd/sandboxd/tests/needs"
)

func TestT40_CX71_ReadNumbersLines(t *testing.T) {
	e := toolstest.New(t)
	e.Write("five", "a\nb\nc\nd\ne\n")
	e.Write("open", "a\nb")
	e.Write("empty", "")
	e.Write("blank", "\n\nx\n")
	for _, tt := range []struct {
		name string
		args m
		want string
	}{
		{"offset skips lines, numbers begin at one", m{"file_path": "five", "offset": 1, "limit": 2}, "2\tb\n3\tc\n[note: more lines follow; read on with offset 3]"},
		{"all", m{"file_path": "five"}, "1\ta\n2\tb\n3\tc\n4\td\n5\te"},
		{"the rest", m{"file_path": "five", "offset": 3}, "4\td\n5\te"},
		{"from the end", m{"file_path": "five", "offset": -2}, "-2\td\n-1\te"},
		{"from the end, with a limit", m{"file_path": "five", "offset": -3, "limit": 1}, "-3\tc\n[note: more lines follow; read on with offset -2]"},
		{"more from the end than there are", m{"file_path": "five", "offset": -9, "limit": 1}, "-5\ta\n[note: more lines follow; read on with offset -4]"},
		{"last line without newline", m{"file_path": "open"}, "1\ta\n2\tb"},
		{"from the end without newline", m{"file_path": "open", "offset": -1}, "-1\tb"},
		{"empty", m{"file_path": "empty"}, "[note: the file is empty]"},
		{"blank lines", m{"file_path": "blank"}, "1\t\n2\t\n3\tx"},
		{"absolute", m{"file_path": e.Dir + "/open"}, "1\ta\n2\tb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := e.OK(Read{}, tt.args); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestT40_LinesOfACall: a call without a limit gets 2,000 lines, and is told where to go on.
func TestT40_LinesOfACall(t *testing.T) {
	e := toolstest.New(t)
	e.Write("fits", strings.Repeat("x\n", 2000))
	e.Write("long", strings.Repeat("x\n", 2001))
	if got := toolstest.Lines(e.OK(Read{}, m{"file_path": "fits"})); len(got) != 2000 || got[1999] != "2000\tx" {
		t.Errorf("of 2,000 lines: %d lines, the last is %q", len(got), got[len(got)-1])
	}
	want := "[note: more lines follow; read on with offset 2000]"
	if got := toolstest.Lines(e.OK(Read{}, m{"file_path": "long"})); len(got) != 2001 || got[2000] != want {
		t.Errorf("of 2,001 lines: %d lines, the last is %q", len(got), got[len(got)-1])
	}
}

func TestT40_ReadRefusesWithAHint(t *testing.T) {
	e := toolstest.New(t)
	e.Write("five", "a\nb\nc\nd\ne\n")
	e.Write("bin", "ab\x00cd")
	e.Write("secret/key", "k")
	e.Box.Denied = []string{e.Dir + "/secret"}
	if err := unix.Mkfifo(e.Dir+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, code string }{
		{"missing", "nope", "file_not_found"},
		{"missing directory", "nope/nope", "file_not_found"},
		{"a file as a directory", "five/x", "file_not_found"},
		{"directory", ".", "is_directory"},
		{"binary", "bin", "binary_file"},
		{"fifo without a writer", "fifo", "not_a_file"},
		{"device", "/dev/zero", "not_a_file"},
		{"X-36: denied", "secret/key", "path_denied"},
		{"NUL in the path", "a\x00b", "path_control_character"},
		{"empty path", "", "path_empty"},
		{"its own process", "/proc/self/environ", "path_proc"},
		{"another process", "/proc/1/environ", "path_proc"},
		{"too long", strings.Repeat("x/", 4000), "path_too_long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			te := e.FailsAny(Read{}, m{"file_path": tt.path}, tt.code, "not_a_directory")
			if te.Msg == "" || te.Hint == "" && tt.code != "path_denied" {
				t.Errorf("got message %q, hint %q, want both", te.Msg, te.Hint)
			}
		})
	}
	te := e.Fails(Read{}, m{"file_path": "five", "offset": 5}, "offset_past_end")
	if !strings.Contains(te.Msg, "5 lines") {
		t.Errorf("got %q, want the number of lines", te.Msg)
	}
	e.Fails(Read{}, m{"file_path": "five", "limit": 0}, "invalid_arguments")
}

func TestRead_OddTextIsShownAndSaid(t *testing.T) {
	e := toolstest.New(t)
	for _, tt := range []struct{ name, content, line, note string }{
		{"crlf", "a\r\nb\r\n", "1\ta\n2\tb\n", "CRLF"},
		{"bom", "\xef\xbb\xbfa\n", "1\ta\n", "byte order mark"},
		{"utf16le", "\xff\xfea\x00\n\x00", "1\ta\n", "UTF-16LE"},
		{"utf16be", "\xfe\xff\x00a\x00\n", "1\ta\n", "UTF-16BE"},
		{"latin1", "caf\xe9\n", "1\tcaf\uFFFD\n", "not UTF-8"},
		{"long", strings.Repeat("é", 5000) + "\nb\n", "1\t" + strings.Repeat("é", 2000) + "…\n2\tb\n", "cut"},
		{"very long", strings.Repeat("x", 1<<20) + "\nb\n", "1\t" + strings.Repeat("x", 2000) + "…\n2\tb\n", "cut"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.Write(tt.name, tt.content)
			got := e.OK(Read{}, m{"file_path": tt.name})
			if !strings.HasPrefix(got, tt.line) || !strings.Contains(got[len(tt.line):], tt.note) {
				t.Errorf("got %.80q … %q, want %.80q and a note with %q", got, got[max(0, len(got)-80):], tt.line, tt.note)
			}
		})
	}
}

func TestT40_ImagesPDFsAndNotebooks(t *testing.T) {
	e := toolstest.New(t)
	e.Write("p.png", "\x89PNG\r\n\x1a\nrest")
	e.Write("d.pdf", "%PDF-1.7 rest")
	e.Write("n.ipynb",
		`{"cells":[{"id":"a1","cell_type":"code","source":["x = 1\n","x"],"outputs":[{"text":"1\n"},{"ename":"E","evalue":"v"}]},{"cell_type":"markdown","source":"# T"}]}`)
	e.Write("broken.ipynb", `{"cells":`)
	for _, tt := range []struct{ file, kind, mime string }{{"p.png", "image", "image/png"}, {
		"d.pdf", "resource", "application/pdf",
	}} {
		text, out, err := e.Call(Read{}, m{"file_path": tt.file})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Content) != 2 || out.Content[1].Type != tt.kind || out.Content[1].MIMEType != tt.mime ||
			string(out.Content[1].Data) != e.Read(tt.file) {
			t.Errorf("%s: got %+v, want the whole file as %s", tt.file, out.Content, tt.kind)
		}
		if !strings.Contains(text, tt.mime) {
			t.Errorf("%s: got text %q, want what it is", tt.file, text)
		}
	}
	got := e.OK(Read{}, m{"file_path": "n.ipynb"})
	for _, want := range []string{
		`<cell id="a1" type="code">`, "x = 1\nx", "[output]\n1", "[error] E: v",
		`<cell id="cell-1" type="markdown">`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	if got := e.OK(Read{}, m{"file_path": "broken.ipynb"}); got != "1\t{\"cells\":" {
		t.Errorf("got %q, want a broken notebook as text", got)
	}
}

func TestRead_HugeSparseFileInBoundedMemory(t *testing.T) {
	e := toolstest.New(t)
	path := e.Write("huge", toolstest.RepeatLines(1000))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("\nlast\n"), 2<<30); err != nil {
		needs.Missing(t, "no sparse file of 2 GB here: %v", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := e.OK(Read{}, m{"file_path": "huge", "offset": -1})
	runtime.ReadMemStats(&after)
	if got != "-1\tlast" {
		t.Errorf("got %.60q, want the last line", got)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("allocated %d bytes, want at most 16 MB", grown)
	}
}

func TestRead_CancelStops(t *testing.T) {
	e := toolstest.New(t)
	e.Write("f", toolstest.RepeatLines(1000))
	ctx, cancel := context.WithCancel(t.Context())
	e.Box.Before = func(guard.PathUse) { cancel() }
	if _, _, err := e.CallCtx(ctx, Read{}, m{"file_path": "f"}); err == nil {
		t.Error("a cancelled read succeeded")
	}
}

func TestX19_LinkSwappedInAfterJudgingLeadsNowhere(t *testing.T) {
	e := toolstest.New(t)
	e.Write("pub/f", "public\n")
	e.Write("secret/f", "hidden\n")
	e.Box.Before = func(guard.PathUse) {
		if err := errors.Join(os.RemoveAll(e.Dir+"/pub"), os.Symlink(e.Dir+"/secret", e.Dir+"/pub")); err != nil {
			t.Fatal(err)
		}
		e.Box.Before = nil
	}
	text, _, err := e.Call(Read{}, m{"file_path": "pub/f"})
	if err == nil {
		t.Fatalf("read %q through a link that came after the judge", text)
	}
}

func TestRead_OffsetsAgreeWithLines(t *testing.T) {
	e := toolstest.New(t)
	var all []string
	var b strings.Builder
	for i := range 30_000 { // more than one buffer
		all = append(all, fmt.Sprintf("%d %s", i, strings.Repeat("x", i%40)))
		b.WriteString(all[i] + "\n")
	}
	e.Write("f", b.String())
	for _, offset := range []int{0, 1, 999, 4095, 12345, 29_999} {
		want := fmt.Sprintf("%d\t%s", offset+1, all[offset])
		if got := toolstest.Lines(e.OK(Read{}, m{"file_path": "f", "offset": offset, "limit": 1}))[0]; got != want {
			t.Errorf("offset %d: got %q, want %q", offset, got, want)
		}
		back := offset - len(all)
		want = fmt.Sprintf("%d\t%s", back, all[offset])
		if got := toolstest.Lines(e.OK(Read{}, m{"file_path": "f", "offset": back, "limit": 1}))[0]; got != want {
			t.Errorf("offset %d: got %q, want %q", back, got, want)
		}
	}
}

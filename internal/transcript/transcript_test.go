package transcript_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/internal/transcript"
	"github.com/sandboxd/sandboxd/tests/needs"
)

func open(t testing.TB, path string) *transcript.Dir {
	t.Helper()
	d, err := transcript.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// said are n messages, numbered from 1.
func said(n int) (all []json.RawMessage) {
	for i := range n {
		all = append(all, fmt.Appendf(nil, `{"role":"user","content":"message %d","uuid":"u%d"}`, i+1, i+1))
	}
	return all
}

func save(t testing.TB, d *transcript.Dir, id string, old *transcript.File, keep int, add ...json.RawMessage) {
	t.Helper()
	n, err := d.Write(transcript.Metadata{ID: id}, old, keep, add)
	if err == nil {
		err = n.Placed(id)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, d *transcript.Dir, id string) *transcript.File {
	t.Helper()
	f, err := d.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// page is what a page has, as text.
func page(t testing.TB, f *transcript.File, from, count int) string {
	t.Helper()
	p, err := f.Page(from, count)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for m, err := range p.All() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(m))
	}
	if len(all) != p.Count {
		t.Errorf("a page of %d has %d messages", p.Count, len(all))
	}
	return strings.Join(all, "\n")
}

func joined(messages []json.RawMessage) string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m))
	}
	return strings.Join(all, "\n")
}

func code(err error) string {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

// The file is one JSON object with metadata and messages, in a directory of its own that has
// nothing else.
func TestD01_TheLayoutOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	save(t, d, "a b.ä", nil, 0, said(2)...)
	text, err := os.ReadFile(filepath.Join(dir, "a b.ä", "transcript.json"))
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var messages []json.RawMessage
	if err := json.Unmarshal(whole["messages"], &messages); err != nil || len(whole) != 2 || whole["metadata"] == nil {
		t.Errorf("%v in %s", err, text)
	}
	if got := joined(messages); got != joined(said(2)) {
		t.Errorf("got %s", got)
	}
	names, err := os.ReadDir(filepath.Join(dir, "a b.ä"))
	if err != nil || len(names) != 1 {
		t.Errorf("got %v, %v, want the transcript alone", names, err)
	}
	save(t, d, "empty", nil, 0)
	if f := read(t, d, "empty"); f.Messages() != 0 || page(t, f, 0, 10) != "" {
		t.Errorf("an empty transcript has %d messages", f.Messages())
	}
}

func TestD02_ModesWhateverTheUmaskIs(t *testing.T) {
	for _, mask := range []int{0, 0o777} {
		dir := t.TempDir()
		old := unix.Umask(0)
		d, err := transcript.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		if os.Geteuid() == 0 { // another could not enter its directories
			unix.Umask(mask)
		}
		save(t, d, "s", nil, 0, said(1)...)
		save(t, d, "s", read(t, d, "s"), 1, said(1)...)
		unix.Umask(old)
		for name, want := range map[string]fs.FileMode{"": 0o700, "s": 0o700, "s/transcript.json": 0o600} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("umask %#o: %q has %v, %v, want %v", mask, name, info.Mode(), err, want)
			}
		}
	}
}

// What is read of any page is what the whole has there, however it was written.
func TestD06_AnyPageIsThatPartOfTheWhole(t *testing.T) {
	d := open(t, t.TempDir())
	rapid.Check(t, func(t *rapid.T) {
		var all []json.RawMessage
		var old *transcript.File
		for range rapid.IntRange(1, 4).Draw(t, "saves") {
			var add []json.RawMessage
			for range rapid.IntRange(0, 40).Draw(t, "messages") {
				text := rapid.StringMatching(`[a\n\x{2028}ä",\[\]{}\\]{0,20}`).Draw(t, "text")
				long := strings.Repeat(text, rapid.SampledFrom([]int{1, 1, 1, 5000}).Draw(t, "times"))
				m, err := json.Marshal(map[string]any{"role": "user", "content": long})
				if err != nil {
					t.Fatal(err)
				}
				add = append(add, m)
			}
			keep := rapid.IntRange(0, len(all)).Draw(t, "keep")
			n, err := d.Write(transcript.Metadata{}, old, keep, add)
			if err == nil {
				err = n.Placed("s")
			}
			if err != nil {
				t.Fatal(err)
			}
			if old != nil {
				old.Close()
			}
			if old, err = d.Read("s"); err != nil {
				t.Fatal(err)
			}
			all = append(all[:keep:keep], add...)
		}
		defer old.Close()
		from, count := rapid.IntRange(0, len(all)+2).Draw(t, "from"), rapid.IntRange(0, len(all)+2).Draw(t, "count")
		p, err := old.Page(from, count)
		if err != nil {
			t.Fatal(err)
		}
		var got []json.RawMessage
		for m, err := range p.All() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, append(json.RawMessage{}, m...))
		}
		begin := min(from, len(all))
		if want := all[begin:min(begin+count, len(all))]; joined(got) != joined(want) {
			t.Fatalf("got %s, want %s", joined(got), joined(want))
		}
	})
}

// A file that somebody else wrote, or that is cut off anywhere, is corrupt, and nothing of it
// is taken for a message.
func TestD05_ADamagedFileIsCorrupt(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	save(t, d, "s", nil, 0, said(3)...)
	path := filepath.Join(dir, "s", "transcript.json")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := d.Read("s"); code(err) != "transcript_corrupt" {
			t.Fatalf("cut off after %d bytes of %d: %v", n, len(whole), err)
		} else if f != nil {
			t.Fatal("a file and an error")
		}
	}
	replace := func(old, new string) string { return strings.Replace(string(whole), old, new, 1) }
	for name, text := range map[string]string{
		"a foreign layout":      `{"metadata": {}, "messages": [{"role": "user"}]}`,
		"fewer messages":        replace(`"messageCount":3`, `"messageCount":4`),
		"more messages":         replace(`"messageCount":3`, `"messageCount":2`),
		"no messages":           replace(`"messageCount":3`, `"messageCount":0`),
		"a negative number":     replace(`"messageCount":3`, `"messageCount":-3`),
		"a message of no JSON":  replace(`"message 2"`, `"message 2`),
		"no message":            replace(string(said(2)[1]), `7`),
		"two messages in one":   replace("},\n{\"role\":\"user\",\"content\":\"message 3", "},{\"role\":\"user\",\"content\":\"message 3"),
		"a line without an end": replace("},\n{\"role\":\"user\",\"content\":\"message 3", "}\n{\"role\":\"user\",\"content\":\"message 3"),
		"metadata of no JSON":   replace(`{"metadata":{`, `{"metadata":{{`),
		"a huge first line":     `{"metadata":"` + strings.Repeat("a", 1<<20),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := d.Read("s")
		if err == nil {
			if name == "a line without an end" {
				if _, err := d.Write(transcript.Metadata{}, f, 2, nil); code(err) != "transcript_corrupt" {
					t.Errorf("%s: it is copied: %v", name, err)
				}
			}
			_, err = f.Page(0, 10)
			f.Close()
		}
		if code(err) != "transcript_corrupt" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Nothing but a regular file is read, at once, and no link is followed, not even to save.
func TestOnlyARegularFileIsRead(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	d := open(t, dir)
	other := open(t, elsewhere)
	save(t, other, "s", nil, 0, said(1)...)
	for name, plant := range map[string]func(path string) error{
		"a link": func(p string) error {
			return errors.Join(os.Mkdir(p, 0o700), os.Symlink(elsewhere+"/s/transcript.json", p+"/transcript.json"))
		},
		"a link to the directory": func(p string) error { return os.Symlink(elsewhere+"/s", p) },
		"a pipe": func(p string) error {
			return errors.Join(os.Mkdir(p, 0o700), unix.Mkfifo(p+"/transcript.json", 0o600))
		},
		"a directory":                      func(p string) error { return os.MkdirAll(p+"/transcript.json", 0o700) },
		"a file in place of the directory": func(p string) error { return os.WriteFile(p, nil, 0o600) },
	} {
		if err := plant(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, err := d.Read(name)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != "transcript_corrupt" || !strings.HasPrefix(e.Hint, "no save replaces it") {
			t.Errorf("%s: got %v, and no hint that a save replaces nothing", name, err)
		}
		if d.Regular(name) {
			t.Errorf("%s may be replaced", name)
		}
	}
	n, err := d.Write(transcript.Metadata{}, nil, 0, said(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Placed("a link to the directory"); err == nil {
		t.Error("a transcript was saved through a link")
	}
	if f := read(t, other, "s"); f.Messages() != 1 {
		t.Error("the target of a link was changed")
	}
	if err := n.Drop(); err != nil {
		t.Error(err)
	}
}

// A process that is killed while it saves leaves the old file whole, and what it had begun is
// removed at the next start.
func TestD04_ASaveThatDoesNotEndLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	save(t, d, "s", nil, 0, said(3)...)
	if _, err := d.Write(transcript.Metadata{}, read(t, d, "s"), 3, said(1)); err != nil {
		t.Fatal(err)
	}
	if f := read(t, d, "s"); f.Messages() != 3 {
		t.Errorf("a save that has not ended is seen: %d messages", f.Messages())
	}
	d = open(t, dir)
	if f := read(t, d, "s"); page(t, f, 0, 5) != joined(said(3)) {
		t.Errorf("the old file has changed")
	}
	left, err := os.ReadDir(filepath.Join(dir, ".new"))
	if err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// A reader has one moment of a transcript, whatever is saved meanwhile.
func TestAFileThatIsOpenStays(t *testing.T) {
	d := open(t, t.TempDir())
	save(t, d, "s", nil, 0, said(3)...)
	f := read(t, d, "s")
	save(t, d, "s", nil, 0)
	if err := d.Remove("s"); err != nil {
		t.Fatal(err)
	}
	if got := page(t, f, 1, 5); got != joined(said(3)[1:]) {
		t.Errorf("got %s", got)
	}
}

func TestD04_AFullDiskLeavesTheOldFile(t *testing.T) {
	needs.Root(t, "to mount")
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		needs.Missing(t, "mount a file system of its own: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := open(t, dir)
	save(t, d, "s", nil, 0, said(3)...)
	large := json.RawMessage(`{"role":"user","content":"` + strings.Repeat("a", 2<<20) + `"}`)
	for range 3 { // the first leaves nothing that the second lacks
		if _, err := d.Write(transcript.Metadata{}, read(t, d, "s"), 3, []json.RawMessage{large}); code(err) != "disk_reserve" {
			t.Errorf("got %v, want disk_reserve", err)
		}
	}
	if f := read(t, d, "s"); page(t, f, 0, 5) != joined(said(3)) {
		t.Error("the old file has changed")
	}
	save(t, d, "s", read(t, d, "s"), 3, said(1)...)
	if f := read(t, d, "s"); f.Messages() != 4 {
		t.Errorf("got %d messages", f.Messages())
	}
}

func TestFind(t *testing.T) {
	d := open(t, t.TempDir())
	save(t, d, "s", nil, 0, append(said(3), []byte(`{"role":"user","content":"","id":"i","uuid":7}`))...)
	f := read(t, d, "s")
	for name, want := range map[string]int{"u1": 0, "u3": 2, "i": 3, "7": -1, "": -1, "none": -1} {
		if got, err := f.Find(name); got != want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", name, got, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct{ message, want string }{
		{`{"role":"user","content":"x","more":{"n":12345678901234567890}}`, ""},
		{`{"role":"assistant","content":null,"tool_calls":[]}`, ""},
		{`{"role":"system","content":[]}`, ""},
		{`[]`, "messages[0] is no object"},
		{`null`, "messages[0] is no object"},
		{`{"content":"x"}`, "messages[0].role is not one of user, assistant, system"},
		{`{"role":"tool","content":"x"}`, "messages[0].role is not one of user, assistant, system"},
		{`{"role":7,"content":"x"}`, "messages[0].role is not one of user, assistant, system"},
		{`{"role":"user"}`, "messages[0].content is missing"},
	} {
		err := transcript.Check([]json.RawMessage{[]byte(tt.message)})
		if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
			t.Errorf("%s: got %v, want %s", tt.message, err, tt.want)
		}
	}
}

func TestFirstPrompt(t *testing.T) {
	for _, tt := range []struct{ messages, want string }{
		{`{"role":"system","content":"s"} {"role":"user","content":"first"} {"role":"user","content":"second"}`, "first"},
		{`{"role":"user","content":[{"type":"image"},{"type":"text","text":"in a block"}]}`, "in a block"},
		{`{"role":"user","content":[{"type":"tool_result"}]} {"role":"user","content":"later"}`, "later"},
		{`{"role":"assistant","content":"a"}`, ""},
		{`{"role":"user","content":"` + strings.Repeat("ä", 600) + `"}`, strings.Repeat("ä", 512)},
		{`{"role":"user","content":"` + "a" + strings.Repeat("ä", 600) + `"}`, "a" + strings.Repeat("ä", 511)},
	} {
		var all []json.RawMessage
		for dec := json.NewDecoder(strings.NewReader(tt.messages)); ; {
			var m json.RawMessage
			if err := dec.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
		if got := transcript.FirstPrompt(all); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.messages, got, tt.want)
		}
	}
}

// FuzzRead reads any file: it ends, and what it says is within the file.
func FuzzRead(f *testing.F) {
	f.Add([]byte("{\"metadata\":{\"messageCount\":1},\n\"messages\":[\n{}\n]}\n"))
	f.Add([]byte("{\"metadata\":{\"messageCount\":2},\n\"messages\":[\n{},\n{\"a\":[\n]}\n"))
	f.Add([]byte("{\"metadata\":{},\n\"messages\":[\n\n]}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		d := open(t, dir)
		if err := os.Mkdir(dir+"/s", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/s/transcript.json", text, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := d.Read("s")
		if err != nil {
			return
		}
		defer file.Close()
		for _, from := range []int{0, file.Messages() / 2, max(0, file.Messages()-1)} {
			p, err := file.Page(from, 3)
			if err != nil {
				continue
			}
			for m, err := range p.All() {
				if err != nil || !json.Valid(m) || !strings.Contains(string(text), string(m)) {
					t.Errorf("got %q, %v", m, err)
				}
			}
		}
	})
}

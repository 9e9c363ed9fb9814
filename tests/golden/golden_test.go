package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// said is a test that notes its failures instead of failing.
type said struct {
	testing.TB
	name string
	text string
}

func (s *said) Name() string { return s.name }
func (s *said) Helper()      {}

func (s *said) Errorf(format string, args ...any) { s.text += fmt.Sprintf(format, args...) }

func (s *said) Fatalf(format string, args ...any) {
	s.text += fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// hear runs a check of another test and returns what it said.
func hear(t *testing.T, name string, check func(testing.TB)) string {
	s := &said{TB: t, name: name}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(s)
	}()
	<-done
	return s.text
}

func write(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func setUpdate(t *testing.T, to bool) {
	was := *update
	*update = to
	t.Cleanup(func() { *update = was })
}

const page = "# Page\n<!-- table: of the code -->\nold\n<!-- end -->\nrest\n<!-- other: x -->\ny\n<!-- end -->\n"

func TestAFileThatDiffersFails(t *testing.T) {
	setUpdate(t, false)
	file := write(t, page)
	for _, tt := range []struct {
		name, test, want string
		check            func(testing.TB)
	}{
		{"the same", "TestXIsGenerated", "", func(t testing.TB) { Check(t, file, page) }},
		{
			"another line", "TestXIsGenerated", "run make generate. The first line that differs:\n- rest\n+ tail",
			func(t testing.TB) { Check(t, file, strings.Replace(page, "rest", "tail", 1)) },
		},
		{
			"a line more", "TestXIsGenerated", "- (end of the file)\n+ z",
			func(t testing.TB) { Check(t, file, page+"\nz") },
		},
		{
			"no file", "TestXIsGenerated", "run make generate",
			func(t testing.TB) { Check(t, file+".none", page) },
		},
		{
			"a name that make generate does not find", "TestX", "make generate does not find TestX",
			func(t testing.TB) { Check(t, file, page) },
		},
		{"the same section", "TestXIsGenerated", "", func(t testing.TB) { Section(t, file, "table", "old\n") }},
		{
			"another section", "TestXIsGenerated", "- old\n+ new",
			func(t testing.TB) { Section(t, file, "table", "new\n") },
		},
		{
			"no section", "TestXIsGenerated", `no section "absent"`,
			func(t testing.TB) { Section(t, file, "absent", "new\n") },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := hear(t, tt.test, tt.check)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != page {
		t.Errorf("a check without -update wrote %q, %v", text, err)
	}
}

func TestUpdateWritesTheSectionAlone(t *testing.T) {
	setUpdate(t, true)
	file := write(t, page)
	if got := hear(t, "TestXIsGenerated", func(t testing.TB) { Section(t, file, "table", "new\n") }); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	want := strings.Replace(page, "old", "new", 1)
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
}

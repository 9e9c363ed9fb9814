package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
	"github.com/sandboxd/sandboxd/sandbox/egress"
)

func TestACallIsTwoLinesWithoutItsValues(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	c := sampleCall()
	if err := l.Begin(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := l.End(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	all := p.entries(t)
	if len(all) != 2 || all[0].Event != "begin" || all[1].Event != "end" {
		t.Fatalf("got %+v, want a begin and an end", all)
	}
	end := all[1]
	if end.Call != c.ID || end.Verdict != "allow" || end.Rules[0] != "mode:auto" || end.Approval.By != "uid:1000" ||
		end.Layers[1] != "landlock:7" || end.Missing[0] != "cgroup2" || end.Status != "SUCCESS" ||
		end.Usage.WallMS != 3 ||
		end.Args != digest(c.In.Args) || end.Result == "" || end.Mode != "auto" || end.ToolUseID != "toolu_1" {
		t.Errorf("end line lacks something: %+v", end)
	}
	text, _ := os.ReadFile(p.Path())
	if bytes.Contains(text, []byte("top-secret")) {
		t.Errorf("the log holds a value of the call:\n%s", text)
	}
}

// exited is the data of a tool that ran a program.
type exited struct{}

func (exited) Ended() (int, string) { return 7, "exited" }

// TestTheLinesOfACallHoldWhoWhatAndWhy: every field, in the line of the begin and
// in that of the end.
func TestTheLinesOfACallHoldWhoWhatAndWhy(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	c := sampleCall()
	c.Request.DryRun, c.Digest, c.Approval.Code, c.Approval.Args = true, "d1", "late", json.RawMessage(`{}`)
	c.Session.Agent, c.Session.Above = "worker", []tool.Session{{ID: "s0"}}
	c.Output.Data = exited{}
	c.Changes = tool.Changes{
		List: []tool.Change{{Path: "top-secret-plan", Kind: "create"}}, Total: 1, Undo: &tool.Undo{Kept: true},
	}
	c.Report.Denials = []sandbox.Denial{{Act: "connect to top-secret-plan.example", Layer: "netns"}}
	c.Result.Error = &tool.Error{Code: "exit", Stage: "run"}
	c.Network.Add(egress.Row{
		Host: "a.test", Port: 443, Protocol: "tls", Via: "transparent", Verdict: "deny", Rule: "person", Reason: "not now", Count: 2,
	})
	if err := errors.Join(l.Begin(t.Context(), c), l.End(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	want := Entry{
		Event: "begin", Account: "default-admin", Role: "agent", Session: "s1", Call: c.ID, Tool: "Bash",
		ToolUseID: "toolu_1", Class: "exec", Mode: "auto", Profile: "strict", DryRun: true,
		Verdict: "allow", By: "mode", Rules: []string{"mode:auto"}, Revision: "r1",
		Approval: &Approval{ID: "ap1", Approved: true, By: "uid:1000", Code: "late", Remember: "once", Edited: true},
		Digest:   "d1", Args: digest(c.In.Args), Agent: "worker", Parents: []string{"s0"},
	}
	all := p.entries(t)
	for i, e := range all {
		if e.Seq != uint64(i+1) || e.Time.IsZero() || e.Hash == "" || (e.Prev == "") != (i == 0) {
			t.Errorf("line %d has no place in the chain: %+v", i+1, e)
		}
		all[i].Seq, all[i].Time, all[i].Prev, all[i].Hash = 0, time.Time{}, "", ""
	}
	if !reflect.DeepEqual(all[0], want) {
		t.Errorf("begin: got\n%+v, want\n%+v", all[0], want)
	}
	seven := 7
	want.Event, want.Status, want.ErrorCode, want.Stage = "end", "SUCCESS", "exit", "run"
	want.Result = digest([]byte(c.Result.FinalText))
	want.Layers, want.Missing, want.Denials = []string{"userns", "landlock:7"}, []string{"cgroup2"}, []string{"netns"}
	want.Network = &c.Network
	changes, err := json.Marshal(c.Changes.List)
	if err != nil {
		t.Fatal(err)
	}
	want.Changed, want.Changes, want.Kept = 1, digest(changes), true
	want.Exit, want.Ended, want.Usage = &seven, "exited", &tool.Usage{WallMS: 3}
	if !reflect.DeepEqual(all[1], want) {
		t.Errorf("end: got\n%+v, want\n%+v", all[1], want)
	}
}

func TestAZeroCallIsRecordedAsDenied(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	if err := l.End(t.Context(), &tool.Call{}); err != nil {
		t.Fatal(err)
	}
	if got := p.entries(t)[0].Verdict; got != "deny" {
		t.Errorf("got verdict %q, want deny", got)
	}
}

func TestVerifyNamesTheFirstBadLine(t *testing.T) {
	const n = 1500 // a checkpoint at 1000 and one at the end: 1502 lines
	for _, tt := range []struct {
		name   string
		attack func(*testing.T, [][]byte) [][]byte
		line   uint64
		reason string
	}{
		{"nothing changed", func(_ *testing.T, l [][]byte) [][]byte { return l }, 0, ""},
		{"one byte altered", func(_ *testing.T, l [][]byte) [][]byte {
			l[41] = bytes.Replace(l[41], []byte("event 41"), []byte("event 14"), 1)
			return l
		}, 42, "altered"},
		{"a line altered and its own hash made right", func(t *testing.T, l [][]byte) [][]byte {
			var e Entry
			if err := json.Unmarshal(l[41], &e); err != nil {
				t.Fatal(err)
			}
			e.Message = "nothing happened"
			l[41], _, _ = e.encode()
			return l
		}, 42, "rewritten"},
		{"a line removed", func(_ *testing.T, l [][]byte) [][]byte { return append(l[:41:41], l[42:]...) }, 42, "missing"},
		{"two lines swapped", func(_ *testing.T, l [][]byte) [][]byte { l[41], l[42] = l[42], l[41]; return l }, 42, "missing"},
		{"a line doubled", func(_ *testing.T, l [][]byte) [][]byte {
			return append(l[:42:42], append([][]byte{l[41]}, l[42:]...)...)
		}, 43, "out of order"},
		{"the last line cut off", func(_ *testing.T, l [][]byte) [][]byte { return l[:len(l)-1] }, 1502, "cut off"},
		{"everything after the checkpoint cut off", func(_ *testing.T, l [][]byte) [][]byte { return l[:1000] }, 1001, "cut off"},
		{"emptied", func(*testing.T, [][]byte) [][]byte { return nil }, 1, "cut off"},
		{"the last line torn after it was synced", func(_ *testing.T, l [][]byte) [][]byte {
			l[len(l)-1] = l[len(l)-1][:20]
			return l
		}, 1502, "cut off"},
		{"a line without its newline at the end", func(_ *testing.T, l [][]byte) [][]byte {
			l[len(l)-1] = bytes.TrimSuffix(l[len(l)-1], []byte("\n"))
			return l
		}, 1502, "cut off"},
		{"history rewritten and chained again before a checkpoint", func(t *testing.T, l [][]byte) [][]byte {
			return rechain(t, append(l[:41:41], l[42:]...))
		}, 999, "signature"},
		{"the tail rewritten and chained again", func(t *testing.T, l [][]byte) [][]byte {
			l = l[:1500]
			l[1200] = bytes.Replace(l[1200], []byte("event 1199"), []byte("event 9911"), 1)
			return append(rechain(t, l), []byte{})
		}, 1501, "cut off"},
		{"the tail rewritten, same length", func(t *testing.T, l [][]byte) [][]byte {
			l[1200] = bytes.Replace(l[1200], []byte("event 1199"), []byte("event 9911"), 1)
			return rechain(t, l)
		}, 1502, "signature"},
		{"the tail rewritten without checkpoint, same length", func(t *testing.T, l [][]byte) [][]byte {
			l[1501] = l[1500]
			return rechain(t, l)
		}, 1001, "rewritten"},
		{"a space added", func(_ *testing.T, l [][]byte) [][]byte { l[41] = append([]byte(" "), l[41]...); return l }, 42, "altered"},
		{"garbage", func(_ *testing.T, l [][]byte) [][]byte { l[41] = []byte("garbage\n"); return l }, 42, "not a line"},
		{"a line without end", func(_ *testing.T, l [][]byte) [][]byte {
			l[41] = bytes.Repeat([]byte("x"), 2<<20)
			return l
		}, 42, "longer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.fill(t, n)
			p.rewrite(t, tt.attack(t, p.lines(t)))
			rep := p.verify(t)
			if tt.line == 0 {
				if rep.Bad != nil || rep.Lines != 1502 || rep.Checkpoints != 2 || rep.Mirrored != 1502 {
					t.Errorf("got %+v (%+v), want 1502 good lines and 2 checkpoints", rep, rep.Bad)
				}
				return
			}
			if rep.Bad == nil || rep.Bad.Line != tt.line || !strings.Contains(rep.Bad.Reason, tt.reason) {
				t.Errorf("got %+v, want line %d: %s", rep.Bad, tt.line, tt.reason)
			}
		})
	}
}

func TestATornLastLineIsACrash(t *testing.T) {
	p := newPlace(t)
	p.crash(t, 4)
	f, err := os.OpenFile(p.Path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":5,"ti`); err != nil {
		t.Fatal(err)
	}
	if rep := p.verify(t); rep.Bad != nil || rep.TornBytes != 12 || rep.Lines != 4 {
		t.Fatalf("got %+v, want 4 lines and 12 torn bytes", rep)
	}
	if err := p.open(t).Close(); err != nil {
		t.Fatal(err)
	}
	rep, all := p.verify(t), p.entries(t)
	if rep.Bad != nil || rep.TornBytes != 0 {
		t.Errorf("after the repair: got %+v", rep)
	}
	if e := all[4]; e.Event != "recovered" || e.Detail["torn_bytes"] != "12" {
		t.Errorf("got %+v, want a line that accounts for the torn one", e)
	}
}

func TestOpenRefusesATamperedLog(t *testing.T) {
	for _, tt := range []struct {
		name   string
		attack func(place, *testing.T)
	}{
		{"cut off", func(p place, t *testing.T) { p.rewrite(t, p.lines(t)[:2]) }},
		{"removed", func(p place, _ *testing.T) { _ = os.Remove(p.Path()) }},
		{"altered", func(p place, t *testing.T) {
			l := p.lines(t)
			l[3] = bytes.Replace(l[3], []byte("event"), []byte("Event"), 1)
			p.rewrite(t, append(l, []byte("x\n")))
		}},
		{"altered, of the same length", func(p place, t *testing.T) {
			l := p.lines(t)
			l[1] = bytes.Replace(l[1], []byte("event"), []byte("Event"), 1)
			p.rewrite(t, l)
		}},
		{"two lines change places", func(p place, t *testing.T) {
			l := p.lines(t)
			l[1], l[2] = l[2], l[1]
			p.rewrite(t, l)
		}},
		{"another key", func(p place, t *testing.T) { _ = os.Remove(p.KeyFile) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.fill(t, 5)
			tt.attack(p, t)
			if _, err := Open(t.Context(), p.Options, p.mirror); !errors.Is(err, ErrTampered) {
				t.Errorf("got %v, want ErrTampered", err)
			}
		})
	}
}

// TestAStartReadsALongLogFromACheckpoint: a line before it that was changed is then found by a verification alone, and
// by a start in a log of up to 16 MiB.
func TestAStartReadsALongLogFromACheckpoint(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bytes int
		opens bool
	}{{"short", 15 << 20, false}, {"long", 17 << 20, true}} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.testOnlyCheckpoints = 100
			l := p.open(t)
			for l.Status().Line < 101 || l.tail.size < int64(tt.bytes) {
				n := tool.Note{Name: "operator", Message: "event " + strings.Repeat("x ", maxText/2-3)}
				must(t, l.Append(t.Context(), n))
			}
			must(t, l.Close())
			lines := p.lines(t)
			lines[1] = bytes.Replace(lines[1], []byte("event"), []byte("EVENT"), 1)
			p.rewrite(t, lines)
			l, err := Open(t.Context(), p.Options, p.mirror)
			if opens := err == nil; opens != tt.opens || !opens && !errors.Is(err, ErrTampered) {
				t.Errorf("a start: %v", err)
			}
			if l != nil {
				must(t, l.Close())
			}
			if rep := p.verify(t); rep.Bad == nil || rep.Bad.Line != 2 {
				t.Errorf("a verification: %+v", rep.Bad)
			}
		})
	}
}

func TestReopenContinuesTheChain(t *testing.T) {
	p := newPlace(t)
	for range 3 {
		p.fill(t, 700)
	}
	rep := p.verify(t)
	if rep.Bad != nil || rep.Lines != 2100+2+3 || rep.Mirrored != rep.Lines {
		t.Errorf("got %+v (%+v)", rep, rep.Bad)
	}
}

// TestNothingRunsWithoutARecord: whatever happens to the file while the daemon
// runs, the next Begin and End fail.
func TestNothingRunsWithoutARecord(t *testing.T) {
	for _, tt := range []struct {
		name   string
		attack func(place) error
	}{
		{"removed", func(p place) error { return os.Remove(p.Path()) }},
		{"renamed", func(p place) error { return os.Rename(p.Path(), p.Path()+".old") }},
		{"replaced by an identical copy", func(p place) error {
			text, err := os.ReadFile(p.Path())
			return errors.Join(err, os.Remove(p.Path()), os.WriteFile(p.Path(), text, 0o600))
		}},
		{"truncated", func(p place) error { return os.Truncate(p.Path(), 10) }},
		{"written to", func(p place) error {
			f, err := os.OpenFile(p.Path(), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("x\n")
			return errors.Join(err, f.Close())
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			l := p.open(t)
			if err := l.Begin(t.Context(), sampleCall()); err != nil {
				t.Fatal(err)
			}
			if err := tt.attack(p); err != nil {
				t.Fatal(err)
			}
			if err := l.Begin(t.Context(), sampleCall()); !errors.Is(err, ErrTampered) {
				t.Errorf("Begin: got %v, want ErrTampered", err)
			}
			if err := l.End(t.Context(), sampleCall()); !errors.Is(err, ErrTampered) {
				t.Errorf("End: got %v, want ErrTampered", err)
			}
		})
	}
}

func TestManyWritersKeepOneChain(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				c := sampleCall()
				if err := errors.Join(l.Begin(t.Context(), c), l.End(t.Context(), c)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if rep := p.verify(t); rep.Bad != nil || rep.Lines != 3200+3+1 || rep.Checkpoints != 4 {
		t.Errorf("got %+v (%+v), want 3204 lines, 4 checkpoints", rep, rep.Bad)
	}
	if err := l.Begin(t.Context(), sampleCall()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
}

func TestTheKeyIsApartAndPrivate(t *testing.T) {
	p := newPlace(t)
	if err := p.open(t).Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(p.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v %v, want mode 0600", info, err)
	}
	if info, err := os.Stat(p.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("log: %v %v, want mode 0600", info, err)
	}
	for _, tt := range []struct {
		name string
		set  func(*Options)
		want string
	}{
		{
			"key beside the log", func(o *Options) { o.KeyFile = filepath.Join(o.Dir, "audit.key") },
			"directory of the log",
		},
		{"no key", func(o *Options) { o.KeyFile = "" }, "no key file"},
		{"readable key", func(o *Options) { _ = os.Chmod(o.KeyFile, 0o644) }, "0600"},
		{"empty key", func(o *Options) { _ = os.Chmod(o.KeyFile, 0o600); _ = os.Truncate(o.KeyFile, 0) }, "key file"},
		{"unknown sync", func(o *Options) { o.Sync = "sometimes" }, "sometimes"},
	} {
		o := p.Options
		tt.set(&o)
		if _, err := Open(t.Context(), o, p.mirror); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := Open(t.Context(), p.Options, nil); err == nil {
		t.Error("a log without a mirror was opened")
	}
}

// TestHostileNames: the model chooses session, tool and tool_use_id.
func TestHostileNames(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	c := sampleCall()
	c.Request.Session = "a\"}\n{\"seq\":1}\xff\x00"
	c.Request.Tool = strings.Repeat("é", 1<<20)
	c.Request.ToolUseID = "ghp_" + strings.Repeat("a", 36)
	for range 1000 {
		c.Decision.Reasons = append(c.Decision.Reasons, tool.Reason{Rule: strings.Repeat("r", 1000)})
	}
	if err := l.End(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	line := p.lines(t)
	if len(line) != 1 || len(line[0]) > 64<<10 || bytes.Contains(line[0], []byte("ghp_")) {
		t.Errorf("got %d lines, the first of %d bytes", len(line), len(line[0]))
	}
	if rep := p.verify(t); rep.Bad != nil {
		t.Error(rep.Bad)
	}
}

// TestNoTextOfOthersCarriesASecret: clients, models and authors of policies choose
// these texts.
func TestNoTextOfOthersCarriesASecret(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	n := 0
	secret := func() string {
		n++
		return fmt.Sprintf("ghp_%036d", n)
	}
	c := sampleCall()
	c.Request.Account, c.Request.Session, c.Request.Tool, c.Request.ToolUseID = secret(), secret(), secret(), secret()
	c.Session.Profile = sandbox.Profile(secret())
	c.Decision.Reasons[0].Rule = secret()
	c.Approval.ID, c.Approval.By, c.Approval.Code, c.Approval.Remember = secret(), secret(), secret(), secret()
	c.Result.Error = &tool.Error{Code: secret()}
	c.Report.Layers[0], c.Report.Missing[0] = secret(), secret()
	c.Report.Denials = []sandbox.Denial{{Layer: secret()}}
	e := tool.Note{
		Name: secret(), Account: secret(), Session: secret(), Tool: secret(), Message: secret(),
		Detail: map[string]string{secret(): secret()},
	}
	if err := errors.Join(l.Begin(t.Context(), c), l.End(t.Context(), c), l.Append(t.Context(), e)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.Path())
	if err != nil || bytes.Contains(text, []byte("ghp_")) || bytes.Count(text, []byte("[redacted:")) < n {
		t.Errorf("%d secrets: %v\n%s", n, err, text)
	}
}

// TestOnlyAPrivateFileIsTheLog: one that others can read or exchange is no record.
func TestOnlyAPrivateFileIsTheLog(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(path string) error
	}{
		{"others can read it", func(path string) error { return os.Chmod(path, 0o640) }},
		{"others can write it", func(path string) error { return os.Chmod(path, 0o602) }},
		{"it is a link to it", func(path string) error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
		}},
		{"it is a pipe", func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.fill(t, 3)
			if err := tt.spoil(p.Path()); err != nil {
				t.Fatal(err)
			}
			if l, err := Open(t.Context(), p.Options, p.mirror); err == nil {
				_ = l.Close()
				t.Error("it was opened")
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkBeginEnd(b *testing.B) {
	for _, sync := range []string{"interval", "always"} {
		b.Run(sync, func(b *testing.B) {
			p := newPlace(b)
			p.Sync = sync
			l := p.open(b)
			c := sampleCall()
			for b.Loop() {
				if err := errors.Join(l.Begin(b.Context(), c), l.End(b.Context(), c)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

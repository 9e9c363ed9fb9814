package guard

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/shellparse"
)

// CommandAnswer is the judgement of a command line on the wire: of POST /check and
// of "sandboxd check command".
type CommandAnswer struct {
	ID      json.RawMessage `json:"id,omitempty"`
	Verdict Verdict         `json:"verdict"`
	Reasons []Refusal       `json:"reasons"`
	Facts   CommandFacts    `json:"facts"`
}

// PathAnswer is the judgement of a path on the wire.
type PathAnswer struct {
	ID       json.RawMessage `json:"id,omitempty"`
	Verdict  Verdict         `json:"verdict"`
	Resolved string          `json:"resolved"`
	Reasons  []Refusal       `json:"reasons"`
}

// CommandFacts is what the guard sees in a command line. Paths are physical; one
// that cannot be known is as it was written. Patterns keep their *.
type CommandFacts struct {
	Commands []CommandFact `json:"commands"`
	Reads    []string      `json:"reads"`
	Writes   []string      `json:"writes"`
	Hosts    []string      `json:"hosts"`
	Opaque   []OpaqueFact  `json:"opaque"`
}

// CommandFact is one program start.
type CommandFact struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"`
	Via  []string `json:"via"`
}

// OpaqueFact is one part that cannot be read.
type OpaqueFact struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	At      shellparse.Pos `json:"at"`
}

// CommandAnswer puts j on the wire.
func (j Judgement) CommandAnswer() CommandAnswer {
	f := CommandFacts{
		Commands: []CommandFact{}, Reads: []string{}, Writes: []string{}, Hosts: []string{},
		Opaque: []OpaqueFact{},
	}
	if s := j.Uses.Script; s != nil {
		f.Commands = make([]CommandFact, 0, len(s.Commands))
		words := 0
		for i := range s.Commands {
			words += len(s.Commands[i].Args)
		}
		texts := make([]string, 0, words)
		for i := range s.Commands {
			c := &s.Commands[i]
			fact := CommandFact{Name: c.Name, Path: c.Path, Via: c.Via}
			if fact.Via == nil {
				fact.Via = []string{}
			}
			from := len(texts)
			for _, a := range c.Args {
				texts = append(texts, a.Text)
			}
			fact.Args = slices.Clip(texts[from:])
			f.Commands = append(f.Commands, fact)
			f.Hosts = append(f.Hosts, c.Hosts...)
		}
		for _, o := range s.Opaque {
			f.Opaque = append(f.Opaque, OpaqueFact{o.Code, o.Message, o.At})
		}
	}
	for _, p := range j.Uses.Paths {
		path := p.Path
		if path == "" {
			path = p.Raw
		}
		if p.Op == Read {
			f.Reads = append(f.Reads, path)
		} else {
			f.Writes = append(f.Writes, path)
		}
	}
	return CommandAnswer{Verdict: j.Verdict, Reasons: append([]Refusal{}, j.Reasons...), Facts: f}
}

// PathAnswer puts j on the wire.
func (j Judgement) PathAnswer() PathAnswer {
	return PathAnswer{Verdict: j.Verdict, Resolved: j.Resolved, Reasons: append([]Refusal{}, j.Reasons...)}
}

// CheckCommandLines answers lines of {"id", "command", "cwd", "home"?, "settings"}
// in order. A line that is not valid is answered with its id and an error. Other
// keys of a line are passed over, so that a corpus can be fed as it is.
func CheckCommandLines(in io.Reader, out io.Writer) error {
	var b bulk
	return b.each(in, out, func(l *bulkLine) (any, error) {
		if l.Command == nil {
			return nil, errors.New("no command")
		}
		r, bad, err := b.rules(l.Settings)
		if err != nil {
			return nil, err
		}
		j := judgement([]Refusal{bad})
		if r != nil {
			j = r.JudgeCommand(*l.Command, l.Cwd, l.home())
		}
		a := j.CommandAnswer()
		a.ID = l.ID
		return a, nil
	})
}

// CheckPathLines answers lines of {"id", "path", "op", "cwd", "home"?, "settings"}.
func CheckPathLines(in io.Reader, out io.Writer) error {
	var b bulk
	return b.each(in, out, func(l *bulkLine) (any, error) {
		if l.Path == nil {
			return nil, errors.New("no path")
		}
		op := Op(l.Op)
		if op != Read && op != Write {
			return nil, fmt.Errorf("op %q is not read or write", l.Op)
		}
		r, bad, err := b.rules(l.Settings)
		if err != nil {
			return nil, err
		}
		j := judgement([]Refusal{bad})
		if r != nil {
			j = r.JudgePath(*l.Path, op, l.Cwd, l.home())
		}
		a := j.PathAnswer()
		a.ID = l.ID
		return a, nil
	})
}

type bulkLine struct {
	ID       json.RawMessage `json:"id"`
	Command  *string         `json:"command"`
	Path     *string         `json:"path"`
	Op       string          `json:"op"`
	Cwd      string          `json:"cwd"`
	Home     string          `json:"home"`
	Settings json.RawMessage `json:"settings"`
}

// home returns the home directory that the line names, else the one that holds cwd.
func (l *bulkLine) home() string {
	if l.Home != "" {
		return l.Home
	}
	if rest, ok := strings.CutPrefix(l.Cwd, "/home/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		if name != "" && name != ".." && name != "." {
			return l.Cwd[:len("/home/")+len(name)]
		}
	}
	return ""
}

// bulk prepares each settings document once: lines of one run mostly share them.
type bulk struct {
	prepared map[string]preparedRules
	line     bulkLine // the one that is read: its memory serves the next one
}

type preparedRules struct {
	rules   *Rules
	refusal Refusal
	err     error
}

func (b *bulk) rules(raw json.RawMessage) (*Rules, Refusal, error) {
	if len(raw) == 0 {
		return nil, Refusal{}, errors.New("no settings")
	}
	p, ok := b.prepared[string(raw)]
	if !ok {
		s, err := ParseSettings(raw)
		p.err = err
		if err == nil {
			var bad *Refusal
			if p.rules, bad = prepare(s); bad != nil {
				p.refusal = *bad
			}
		}
		if b.prepared == nil || len(b.prepared) > 1024 {
			b.prepared = map[string]preparedRules{}
		}
		b.prepared[string(raw)] = p
	}
	return p.rules, p.refusal, p.err
}

// maxLine holds the largest command there is, with every byte escaped.
const maxLine = 8 << 20

func (b *bulk) each(in io.Reader, out io.Writer, answer func(*bulkLine) (any, error)) error {
	r := bufio.NewReaderSize(in, 1<<16)
	w := bufio.NewWriterSize(out, 1<<16)
	var long []byte
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for {
		line, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			long = long[:0]
			for err == bufio.ErrBufferFull && len(long) < maxLine {
				long = append(long, line...)
				line, err = r.ReadSlice('\n')
			}
			long = append(long, line...)
			line = long
		}
		if err == bufio.ErrBufferFull {
			return fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if err := enc.Encode(b.one(text, answer)); err != nil {
				return err
			}
		}
		// A reader that waits for each answer must get it.
		if r.Buffered() == 0 || err != nil {
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type lineError struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

func (b *bulk) one(text []byte, answer func(*bulkLine) (any, error)) any {
	l := &b.line
	*l = bulkLine{ID: l.ID[:0], Settings: l.Settings[:0]}
	if err := json.Unmarshal(text, l); err != nil {
		return lineError{idOf(text), err.Error()}
	}
	if len(l.ID) == 0 {
		l.ID = json.RawMessage("null")
	}
	a, err := answer(l)
	if err != nil {
		return lineError{l.ID, err.Error()}
	}
	return a
}

// idOf finds the id of a line of which another part is wrong.
func idOf(text []byte) json.RawMessage {
	var only struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(text, &only) != nil || only.ID == nil {
		return json.RawMessage("null")
	}
	return only.ID
}

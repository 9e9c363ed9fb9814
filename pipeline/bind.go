package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/budget"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/sandbox"
)

// bind fills c.Binding: what an answer binds of the files that the call names or executes.
func (p *Pipeline) bind(ctx context.Context, c *tool.Call) error {
	c.Binding = tool.Binding{}
	box, err := p.box(ctx, c)
	if err != nil {
		return err
	}
	defer box.Close()
	b := binder{p: p, c: c, ctx: ctx, box: box, read: map[string]content{}}
	for _, use := range c.Facts.Uses.Paths {
		if use.Path != "" {
			b.content(use.Path)
		}
	}
	b.code()
	c.Binding.Sums = make(map[string]string, len(b.read))
	for path, known := range b.read {
		c.Binding.Sums[path] = known.sum
	}
	return nil
}

// binder finds what can be bound of one call.
type binder struct {
	p    *Pipeline
	c    *tool.Call
	ctx  context.Context
	box  sandbox.Box
	read map[string]content // by physical path
	size int64              // of what is bound
	// scripts are those whose interpreter is looked for, by physical path.
	scripts []string
}

func (b *binder) rules() *guard.Rules { return b.p.floor.Rules(b.c.Settings) }

func (b *binder) content(path string) content {
	known, ok := b.read[path]
	if !ok {
		known = contentOf(b.ctx, b.box, path)
		b.read[path] = known
	}
	return known
}

func (b *binder) not(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if bound := &b.c.Binding; !slices.Contains(bound.Not, text) {
		bound.Not = append(bound.Not, text)
	}
}

// code binds the files that the call executes, and names what cannot be bound.
func (b *binder) code() {
	uses := b.c.Facts.Uses
	done := budget.Of(b.ctx).Compute(b.ctx) // a long line has thousands of commands
	files, unbound := b.rules().CodeOf(uses, b)
	done()
	files = slices.DeleteFunc(files, func(f guard.Code) bool { return b.fixed(f.Names...) })
	b.c.Binding.Not = unbound
	switch {
	case uses.Script == nil:
		return
	case b.c.Request.Elsewhere():
		b.c.Binding.Not = []string{"anything: another program runs this call, outside of this sandbox"}
		return
	case len(files) == 0:
	default:
		why := b.p.Backend.Binds()
		for _, f := range files {
			if why != nil {
				b.not("%s: %v", f.Path, why)
			} else {
				b.file(f)
			}
		}
	}
	var scripts []string
	for _, f := range b.c.Binding.Files {
		if !f.Absent {
			scripts = append(scripts, f.Path)
		}
	}
	if len(scripts) > 0 {
		b.not("what %s starts or reads by itself", strings.Join(scripts, ", "))
	}
	b.data(files)
}

// LookPath implements [guard.Place].
func (b *binder) LookPath(name string) (found string, before []string) { return b.box.LookPath(name) }

// Exists implements [guard.Place].
func (b *binder) Exists(path string) bool {
	physical, err := b.rules().Resolve(path, b.c.In.Dir, b.c.In.Home)
	return err == nil && b.content(physical).sum != tool.Absent
}

// file binds one file, and the interpreter that its first line names.
func (b *binder) file(f guard.Code) {
	if b.known(f) || slices.Contains(b.scripts, f.Path) {
		return
	}
	switch known := b.content(f.Path); {
	case f.Absent && known.sum != tool.Absent:
		b.not("%s, which would come first if it could be executed", f.Path)
	case f.Absent && b.count(true) >= sandbox.MaxAbsent:
		b.not("%s, which would come first if it appeared: too much is bound already", f.Path)
	case f.Absent:
		b.add(f, known)
	case known.sum == tool.Absent:
		b.not("%s, which is not there now or cannot be read", f.Path)
	case known.size > sandbox.MaxBound:
		b.not("%s, which is larger than %d MiB", f.Path, sandbox.MaxBound>>20)
	case !known.ok:
		b.not("%s (%s)", f.Path, known.sum)
	case !b.interpreter(f.Path, known.head):
	case b.count(false) >= sandbox.MaxBoundFiles || b.size+known.size > sandbox.MaxBoundTotal:
		b.not("%s: too much is bound already", f.Path)
	default:
		b.add(f, known)
	}
}

func (b *binder) add(f guard.Code, known content) {
	a := sandbox.Approved{Path: f.Path, Names: f.Names, Absent: f.Absent}
	if !f.Absent {
		a.Sum, a.Bytes = known.sum, known.size
		b.size += known.size
	}
	b.c.Binding.Files = append(b.c.Binding.Files, a)
}

// known reports whether a file is bound already, and adds its names.
func (b *binder) known(f guard.Code) bool {
	for i := range b.c.Binding.Files {
		a := &b.c.Binding.Files[i]
		if a.Path != f.Path {
			continue
		}
		for _, name := range f.Names {
			if !slices.Contains(a.Names, name) {
				a.Names = append(a.Names, name)
			}
		}
		return true
	}
	return false
}

func (b *binder) count(absent bool) (n int) {
	for _, f := range b.c.Binding.Files {
		if f.Absent == absent {
			n++
		}
	}
	return n
}

// interpreter binds the interpreter of a script by its first bytes, and what env starts. It
// reports false if the script cannot be bound because of it.
func (b *binder) interpreter(script string, head []byte) bool {
	path, arg := sandbox.Interpreter(head)
	if path == "" {
		return true
	}
	physical, err := b.rules().Resolve(path, b.c.In.Dir, b.c.In.Home)
	if err != nil || !strings.HasPrefix(path, "/") {
		b.not("%s: its interpreter %s is not known", script, path)
		return false
	}
	if filepath.Base(path) == "env" || filepath.Base(physical) == "env" {
		b.env(script, arg)
	}
	if b.fixed(physical, path) {
		return true
	}
	if again, _ := sandbox.Interpreter(b.content(physical).head); again != "" {
		b.not("%s: its interpreter %s is a script itself", script, path)
		return false
	}
	b.named(path, false)
	return true
}

// env binds what env starts for a script.
func (b *binder) env(script, arg string) {
	words := strings.Fields(strings.TrimPrefix(arg, "-S"))
	if len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.ContainsAny(words[0], `/=$\'"`) {
		b.not("%s: what env starts by %q", script, arg)
		return
	}
	found, before := b.box.LookPath(words[0])
	for _, path := range before {
		b.named(path, true)
	}
	if found != "" {
		b.scripts = append(b.scripts, script) // env may start it again
		b.named(found, false)
	}
}

// named binds a file by its path, if it can change.
func (b *binder) named(path string, absent bool) {
	at, err := b.rules().Resolve(path, "/", "")
	clean := filepath.Clean(path)
	again, err2 := b.rules().Resolve(clean, "/", "")
	switch {
	case err != nil || err2 != nil || at != again:
		b.not("%s: its path leads through a link and back", path)
	case !b.fixed(at, path):
		b.file(guard.Code{Path: at, Names: slices.Compact([]string{at, clean}), Absent: absent})
	}
}

// data names the files that the call only reads: they are compared when the answer comes,
// and programs then see them as they are.
func (b *binder) data(code []guard.Code) {
	var names []string
	for _, use := range b.c.Facts.Uses.Paths {
		executed := func(f guard.Code) bool { return f.Path == use.Path }
		if use.Op != guard.Read || use.Path == "" || slices.Contains(names, use.Path) ||
			slices.ContainsFunc(code, executed) || b.fixed(use.Path) ||
			b.content(use.Path).sum == notAFile && !use.Recursive || b.content(use.Path).sum == tool.Absent {
			continue
		}
		names = append(names, use.Path)
	}
	if len(names) > 0 {
		b.not("what it reads as data: %s", strings.Join(names, ", "))
	}
}

// fixed reports whether only root can change the files at these paths, and no call with the usual settings can. A call
// that asks for more than these settings needs a person's approval itself.
func (b *binder) fixed(paths ...string) bool {
	usual, err := b.p.settings(b.c)
	if err != nil {
		return false
	}
	writable := slices.Concat(usual.AllowedWritePaths, b.p.Workspaces.Dirs())
	for _, path := range paths {
		if !guard.OnlyRoot(path) {
			return false
		}
		if os.Geteuid() != 0 {
			continue
		}
		write := guard.Uses{Paths: []guard.PathUse{{Raw: path, Path: path, Op: guard.Write}}}
		if _, ok := guard.Reach(path, writable); ok || b.p.floor.Rules(usual).Check(write) == nil {
			return false
		}
	}
	return true
}

// maxBound bounds the memory for the bound files of all calls.
const maxBound = 256 << 20

// bind copies the files of a call as they were approved. The copies live until release.
func (r *running) bind(ctx context.Context, box sandbox.Box, files []sandbox.Approved) (
	_ []sandbox.Bound, release func(), err error,
) {
	size := int64(0)
	for _, f := range files {
		size += f.Bytes
	}
	if !r.reserve(size) {
		return nil, nil, &tool.Error{
			Code: "too_much_bound", Msg: "the files that a person approved for calls under way are too large together",
			Hint: "call again when others have ended",
		}
	}
	bound, err := sandbox.Bind(ctx, box, files)
	if err != nil {
		r.reserve(-size)
		return nil, nil, bindingError(err)
	}
	return bound, func() { sandbox.CloseBound(bound); r.reserve(-size) }, nil
}

// reserve takes memory for bound files, or gives it back.
func (r *running) reserve(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > 0 && r.bound+n > maxBound {
		return false
	}
	r.bound += n
	return true
}

// bindingError is the error of a call whose files have changed since a person approved it.
func bindingError(err error) error {
	replaced, ok := errors.AsType[*sandbox.ReplacedError](err)
	if !ok {
		return err
	}
	return &tool.Error{
		Code: "approval_stale", Msg: replaced.Path + " changed after a person approved it; nothing was run",
		Hint: "call again when the files are at rest",
	}
}

// boundBox is a box whose programs see the file contents that a person approved.
type boundBox struct {
	sandbox.Box
	bound []sandbox.Bound
}

// Start implements [sandbox.Box].
func (b boundBox) Start(ctx context.Context, s sandbox.Spec) (sandbox.Proc, error) {
	s.Bound = b.bound
	return b.Box.Start(ctx, s)
}

package guard

import (
	"fmt"
	"path/filepath"
	"strings"
)

func (r *Rules) checkPath(u PathUse, inCommand bool) *Refusal {
	list, name := r.read, "allowedReadPaths"
	if u.Op != Read {
		list, name = r.write, "allowedWritePaths"
	}
	if r.denied.empty() && list.empty() {
		return nil
	}
	if u.Path == "" {
		return r.unknownPath(u, name)
	}
	if u.Path == "/dev/null" {
		return nil
	}
	if strings.HasPrefix(u.Path, "/dev/tcp/") || strings.HasPrefix(u.Path, "/dev/udp/") {
		return r.checkDevice(u)
	}
	var refusal *Refusal
	if denied, ok := r.deniedBy(u); ok {
		refusal = r.deniedRefusal(u, denied, inCommand)
	}
	if refusal != nil && !refusal.Ask || list.empty() || r.allows(list, u) {
		return refusal // who may be asked about a tree may still not read all of it
	}
	code, scope := "path_outside_read_scope", "read scope"
	if u.Op != Read {
		code, scope = "path_outside_write_scope", "write scope"
	}
	return &Refusal{
		Code:    code,
		Message: fmt.Sprintf("path '%s' is outside allowed %s", shown(u), scope),
		Hint:    fmt.Sprintf("%s allows %s%s", name, some(list.all), resolvedNote(u)) + inside(u, list.all),
		Rule:    name, At: u.At,
		Guess: u.Guess && u.Op == Write, Caged: u.Guess && u.Op == Write,
	}
}

// inside advises a path in the workspace for one that would be made beside it.
func inside(u PathUse, writable []string) string {
	if u.Op != Write || u.Glob {
		return ""
	}
	for _, w := range writable {
		beside, ok := strings.CutPrefix(u.Path, filepath.Dir(w)+"/")
		if !ok || strings.Count(w, "/") < 2 || strings.HasPrefix(w, "/dev/") {
			continue
		}
		name, _, _ := strings.Cut(beside, "/")
		return fmt.Sprintf("; beside a workspace a person can open only a directory that is there, or that mkdir -p "+
			"makes: use a path in it, such as %s", filepath.Join(w, name))
	}
	return ""
}

func (r *Rules) deniedBy(u PathUse) (string, bool) {
	if !u.Glob {
		if d, ok := r.denied.above(u.Path); ok {
			return d, true
		}
		if !u.Recursive {
			return "", false
		}
	}
	for _, d := range r.denied.all {
		if u.touches(d) {
			return d, true
		}
	}
	return "", false
}

func (r *Rules) allows(list pathSet, u PathUse) bool {
	path := u.Path
	if u.Glob {
		path = globDir(path)
	}
	_, ok := list.above(path)
	return ok
}

func (r *Rules) deniedRefusal(u PathUse, denied string, inCommand bool) *Refusal {
	message := fmt.Sprintf("path '%s' is denied by sandbox policy", shown(u))
	if inCommand {
		message = fmt.Sprintf("path '%s' in command is denied by sandbox policy", shown(u))
	}
	hint := fmt.Sprintf("%s and everything below it is denied%s; use a path outside it", denied, resolvedNote(u))
	ref := &Refusal{Code: "path_denied", Message: message, Hint: hint, Rule: "deniedPaths: " + denied, At: u.At}
	if !u.Glob && !Within(sameOnAnyVolume(u.Path), sameOnAnyVolume(denied)) {
		ref.Hint = fmt.Sprintf("the tree holds %s, which is denied; name the parts of it that are needed", denied)
		// Reading around a denied place is what the cage lets happen; moving or
		// removing the tree is not (A8).
		reads := u.Op == Read
		ref.Ask, ref.Caged, ref.Ours = reads, reads || u.Guess, reads
		ref.Guess = u.Guess && !reads
	}
	return ref
}

func (r *Rules) unknownPath(u PathUse, list string) *Refusal {
	why := u.Problem
	if why == "" {
		why = "is not known"
	}
	hint := "write the path out, or loop over names that are in the text"
	if strings.Contains(why, "/proc/") {
		hint = "name the file itself instead of going through /proc"
	}
	return &Refusal{
		Code:    "path_unknown",
		Message: fmt.Sprintf("path '%s' %s", u.Raw, why),
		Hint:    hint,
		Rule:    list, At: u.At,
		Ask: true, Caged: true,
	}
}

func shown(u PathUse) string {
	if u.Raw != "" {
		return u.Raw
	}
	return u.Path
}

func resolvedNote(u PathUse) string {
	if u.Raw == "" || u.Raw == u.Path || u.Glob {
		return ""
	}
	return fmt.Sprintf(" (%s is %s)", u.Raw, u.Path)
}

// some lists what is allowed, shortly.
func some(names []string) string {
	const most = 6
	if len(names) == 0 {
		return "nothing"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Package guard judges what a call would touch by [Settings], which it also defines. It runs nothing.
//
// [JudgeCommand] and [JudgePath] judge one command line or one path:
//
//	settings := guard.DefaultSettings("/work", "/home/dev", nil)
//	j := guard.JudgeCommand("cat ~/.ssh/id_rsa", "/work", "/home/dev", settings)
//	// j.Verdict == guard.Deny; j.Reasons[0].Code == "path_denied"
//
// Callers that judge often do the steps themselves, in this order:
//
//	settings, warnings, err := settings.Normalise()
//	rules := guard.NewRules(settings) // a guard.Prepared keeps those of the last settings
//	script, err := shellparse.Parse(command, shellparse.Options{Dir: "/work", Home: "/home/dev"})
//	uses := rules.ScriptUses(script, "/work") // of one path: Uses.Paths, resolved by rules.Resolve
//	refusals := rules.Check(uses)
//
// ScriptUses looks at the disk to find what a script would touch ([Uses]): at names, directories
// and the data of git. It does not look into denied places. Check compares the uses with the
// [Settings] and does not look at the disk. A call without a [Refusal] is allowed by the settings;
// policies may still deny it. For them Uses also has what Check does not judge, such as what is lost.
// The fields of a Refusal say whether a person may allow it, and whether a sandbox that holds is
// enough. An error of Parse, Resolve or Normalise is a denial. Rules and Prepared are safe for
// concurrent use.
//
// [Settings.Merge] puts a document over settings; [Settings.Meet] and [Settings.Tighten] only make them
// stricter. [Rules.CodeOf] lists the files that a call executes, [PathUse.RunsLater] which
// program obeys a file that it writes.
//
// Guaranteed: Check gives the same answer for the same uses and settings. A path, command or
// construct that cannot be known is refused or asked about, if the settings have a list that it
// could break.
//
// Not guaranteed: that a path still leads to the same file when the program runs. Package sandbox
// enforces the same settings then.
//
// A new check belongs in [Rules.Check], over something that [Uses] has. What finds that out belongs in
// uses.go or effects.go. Its code gets a row in docs/troubleshooting.md. Its cases go into files of
// testdata: commands into guard.jsonl, paths into paths.jsonl, lines that bash reads in another way than
// this package did into differences.jsonl. What the guard knows of one program is a text: see
// shellparse/program/tables. A new setting is a field of Settings, with its part in Meet (and in
// Normalise, Tighten and Forbids, if it is theirs).
package guard

import "github.com/sandboxd/sandboxd/shellparse"

// Op is what is done with a path.
type Op = shellparse.Access

// The two operations.
const (
	Read  = shellparse.Read
	Write = shellparse.Write
)

// PathUse is one file or directory that a call would touch.
type PathUse struct {
	Raw       string         // as the caller wrote it
	Path      string         // physical: absolute, cleaned, symlinks resolved; "" when it cannot be known
	Op        Op             //
	Recursive bool           // the whole tree below is touched, too
	Problem   string         // why Path is "": what could not be known
	Glob      bool           // Path is a pattern: any name that it matches may be touched
	At        shellparse.Pos // where in the command line; zero for a tool's own argument
	Guess     bool           // a word that looks like a path, of an unknown program
	Looks     bool           `json:",omitempty"` // a test or a listing: the content is not read
	// Makes says that the program makes a directory if there is none, and takes over an empty one.
	Makes bool `json:",omitempty"`
	// From says where the bytes come from that a command writes there: download, decoder, text, or "".
	From string `json:",omitempty"`
}

// Uses is what a call would touch. It is found without side effects.
type Uses struct {
	Script *shellparse.Script // nil when the call runs no shell text
	Paths  []PathUse
	Hosts  []string
	// Deletes, Discards and Losses are what its commands lose. Other effects are in the commands of Script.
	Deletes  []Deletion `json:",omitempty"`
	Discards []Discard  `json:",omitempty"`
	Acts     []Act      `json:",omitempty"` // by statements in files that its commands read
	Losses   []Loss     `json:",omitempty"` // single files of which git has no copy
	// Unconfined says that the call asks for more than the lists of paths allow.
	Unconfined bool `json:",omitempty"`
	// Siblings are directories beside the workspace in which the call asks to write.
	Siblings []Sibling `json:",omitempty"`
}

// Refusal is one reason why the settings do not allow a call. Its JSON is part of the answer.
type Refusal struct {
	// Code is stable: "path_denied", "path_outside_read_scope",
	// "path_outside_write_scope", "path_unknown", "command_denied",
	// "command_not_allowed", "command_unknown", "host_denied", "opaque", …
	Code    string         `json:"code"`
	Message string         `json:"message"` // one sentence for a model or a person
	At      shellparse.Pos `json:"at"`
	Hint    string         `json:"hint,omitempty"` // which setting would allow it, or what to do instead
	Rule    string         `json:"rule,omitempty"` // the setting that decided: "deniedPaths: /etc"

	Ask bool `json:"-"` // a person may allow it; if nobody is asked, it is a denial
	// Caged says that the kernel protects everything that this refusal protects: only paths and hosts are at stake,
	// no list of commands. A caller whose cage holds may go on.
	Caged bool `json:"-"`
	// Ours says that only our own cage protects it: the cage hides denied files in a tree that is read, and asks
	// about a host when a program connects. If somebody else runs the program, nothing protects it.
	Ours bool `json:"-"`
	// Guess says that the program is unknown, and only the form of a word suggests that there is something to
	// refuse. With a cage that holds the call may run; without one it is denied.
	Guess bool `json:"-"`
}

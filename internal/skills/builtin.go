package skills

import (
	"os"
	"slices"
	"strings"
)

// builtins returns the built-in skills in the order in which lists show them (K-02). dir is the working directory of
// the session. test, which must stay the last, is available only if dir has a test framework.
func builtins(dir string) []Skill {
	all := []Skill{
		{
			Name: "commit", Aliases: []string{"ci"}, ToolRestrictions: []string{"bash", "read", "glob", "grep"},
			Description:  "Analyses the diff and writes a commit message for it.",
			WhenToUse:    opt("the user wants a commit message for the present changes"),
			ArgumentHint: opt("[what the message should stress]"),
			text: `Write a commit message for the changes in this repository.

1. Look at the changes: git status, git diff --staged, and git diff where nothing is staged.
2. Read git log --oneline -10: keep to the style of this repository.
3. Find out why the changes were made. Read the code around them where the diff does not say it.
4. Answer with the message: a subject of at most 72 characters in the imperative, an empty line, and a body
   that says what changed and why. Name what breaks for users, if anything does.

Only write the message. Never run git add, git commit or git push: the person who asked does that.`,
		},
		{
			Name: "review", Aliases: []string{"review-pr", "cr"},
			ToolRestrictions: []string{"bash", "read", "glob", "grep"},
			Description:      "Reviews changes in five dimensions.",
			WhenToUse:        opt("the user wants changes or a pull request reviewed"),
			ArgumentHint:     opt("[branch, commit or pull request]"),
			text: `Review the changes: those that are named, or the diff of the working tree.

Look at each of five dimensions:
1. Correctness: wrong results, cases at the edge, errors that are swallowed, races.
2. Security: input that is trusted, injection, secrets in code, rights that are too wide.
3. Performance: work that grows faster than its input, needless copies and queries.
4. Style: names, structure, what does not look like the code around it.
5. Testing: what is not tested, and tests that cannot fail.

Read the code around the diff before you judge it. For each finding give file and line, how serious it is,
why, and what to do. Say it where a dimension has none. Change nothing.`,
		},
		{
			Name: "simplify", ToolRestrictions: []string{"bash", "read", "grep", "glob"},
			Description:  "Looks for what changed code can reuse, for its quality and its efficiency.",
			WhenToUse:    opt("the user wants code simpler"),
			ArgumentHint: opt("[files]"),
			text: `Look at the code that is named, or at what changed last, and say how it becomes simpler.

1. Reuse: what does the project or its libraries have already? Search before you answer.
2. Quality: repetition, dead code, names that mislead, layers that do nothing, state that can be derived.
3. Efficiency: work done twice, too early or in a loop, data that is copied and kept for nothing.

For each finding give file and line and the simpler code. Behaviour stays as it is. Change nothing yourself.`,
		},
		{
			Name: "debug", Aliases: []string{"investigate", "diagnose"},
			ToolRestrictions: []string{"read", "grep", "glob", "bash"},
			Description:      "Finds the root cause of an error.",
			WhenToUse:        opt("something fails and the user wants to know why"),
			ArgumentHint:     opt("[error or symptom]"),
			text: `Find the root cause of the problem. Change nothing.

1. Reproduce it, or say what is missing to reproduce it. Keep the exact message.
2. Follow the message to the code. Look at what changed last: git log, git blame.
3. Make a guess that explains everything you saw, and look for what would disprove it.
4. Go on until you have the cause and not only the place where it shows.

Answer with the root cause, the proof, and the smallest change that mends it. Do not make the change.`,
		},
		{
			Name: "test", Aliases: []string{"run-tests"},
			ToolRestrictions: []string{"bash", "read", "write", "glob", "grep"},
			Description:      "Generates tests and runs them.",
			WhenToUse:        opt("the user wants tests written or run"),
			ArgumentHint:     opt("[files or functions]"),
			text: `Write tests for the code that is named, or for what changed last, and run them.

1. Find the test framework of the project, and how its tests look and are named.
2. Read the code. List what it promises: usual cases, cases at the edge, errors.
3. Write the tests beside the others, in their style. Each must be able to fail.
4. Run them. Where one fails, say whether the test or the code is wrong; do not bend a test to pass.

Answer with the tests that you wrote, what they show, and the output of the run.`,
		},
	}
	for i := range all {
		k := &all[i]
		k.UserInvocable, k.Source, k.Available = true, Builtin, true
		k.SupportingFiles, k.Diagnostics = []string{}, []string{}
		if k.Aliases == nil {
			k.Aliases = []string{}
		}
	}
	all[len(all)-1].Available = testable(dir)
	return all
}

// testable reports whether a directory has a test framework that the built-in skill test supports (K-05).
func testable(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxEntries)
	return slices.ContainsFunc(names, func(name string) bool {
		switch name {
		case "Package.swift", "pytest.ini", "Cargo.toml", "go.mod":
			return true
		}
		base, rest, has := strings.Cut(name, ".config")
		return has && (base == "jest" || base == "vitest") && (rest == "" || rest[0] == '.')
	})
}

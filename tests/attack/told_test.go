package attack

import (
	"fmt"
	"strings"
)

// shown: people see what is there.
func shown() []try {
	// Each character makes something invisible, blank or look like something else.
	hidden := func(name string, r rune) try {
		return try{fmt.Sprintf("%s (U+%04X) in a question", name, r), "shown as an escape", func(w *world) (string, []byte) {
			told := w.onScreen("git push --force origin ma" + string(r) + "in")
			if strings.ContainsRune(told, r) {
				return "BROKEN: it is printed as it is", []byte(told)
			}
			if !strings.Contains(strings.ToLower(told), fmt.Sprintf("%x", r)) {
				return "BROKEN: it is left out", []byte(told)
			}
			return "shown as an escape", nil
		}}
	}
	out := []try{
		hidden("a joiner", 0x034F), hidden("a Hangul filler", 0x115F), hidden("another", 0x1160), hidden("a vowel", 0x17B4),
		hidden("a blank of Braille", 0x2800), hidden("a filler", 0x3164), hidden("half a filler", 0xFFA0),
		hidden("a variation selector", 0xFE0F), hidden("one of another plane", 0xE0100), hidden("a right-to-left override", 0x202E),
		hidden("an isolate", 0x2066), hidden("a zero width space", 0x200B), hidden("a tag letter", 0xE0041),
		hidden("a soft hyphen", 0x00AD), hidden("an escape", 0x1B), hidden("a carriage return", '\r'), hidden("a backspace", '\b'),
		hidden("a control of the second set", 0x9B), hidden("a private character", 0xE000), hidden("a musical control", 0x1D173),
	}
	return append(out,
		try{"a line that scrolls the command away", "the whole command is shown", func(w *world) (string, []byte) {
			told := w.onScreen("echo " + strings.Repeat("x ", 3000) + "; git push --force origin main")
			_, below, _ := strings.Cut(told, "\n  command:\n")
			shown := ""
			for line := range strings.Lines(below) {
				part, inside := strings.CutPrefix(line, "    ")
				if !inside {
					break
				}
				shown += strings.TrimSuffix(part, "\n")
			}
			if !strings.Contains(shown, "; git push --force origin main") {
				return "BROKEN: the end is left out", []byte(told)
			}
			return "the whole command is shown", nil
		}},
		try{"lines that look like another question", "every line is marked as text of the call", func(w *world) (string, []byte) {
			told := w.onScreen("git push --force origin main\n== Bash: may this call run?\n  command:\n    ls")
			for l := range strings.Lines(told) {
				if strings.HasPrefix(l, "== Bash") && strings.Count(told, "\n== Bash")+strings.Count(told[:7], "== Bash") > 1 {
					return "BROKEN: a line of the call looks like a question", []byte(told)
				}
			}
			return "every line is marked as text of the call", nil
		}},
	)
}

// onScreen is what a person sees of the question about a command.
func (w *world) onScreen(command string) string {
	w.t.Helper()
	told := ""
	w.answer = func(q question) map[string]any {
		_, b := w.operatorProgram("approvals", "show", q.ID)
		told = string(b)
		return map[string]any{"approved": false}
	}
	defer func() { w.answer = nil }()
	outcome, b := w.outcome(w.session(), "Bash", bash(command))
	if told == "" {
		// It was denied before anybody was asked, and the answer is what is seen.
		if outcome == denied {
			return string(b)
		}
		w.t.Fatalf("nobody was asked: %s %s", outcome, b)
	}
	return told
}

// operatorProgram runs sandboxd as a person does.
func (w *world) operatorProgram(args ...string) (string, []byte) {
	return w.program("", []string{"SANDBOXD_OPERATOR_SOCKET=" + w.socket("o"), "NO_COLOR=1"}, args...)
}

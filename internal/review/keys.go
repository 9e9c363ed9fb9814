package review

import (
	"bufio"
	"io"
	"time"
	"unicode"
)

// The keys that are not text. Keys that a terminal sends as a sequence have values above every character.
const (
	keyStart     = '\x01' // Ctrl-A
	keyInterrupt = '\x03'
	keyEOF       = '\x04'
	keyEnd       = '\x05' // Ctrl-E
	keyBackspace = '\x7f'
	keyErase     = '\b'
	keyKillRest  = '\x0b' // Ctrl-K
	keyKillLine  = '\x15'
	keyKillWord  = '\x17'
	keyEscape    = '\x1b'
	keyEnter     = '\r'

	keyOther = unicode.MaxRune + iota // a sequence without a meaning here
	keyUp
	keyDown
	keyRight
	keyLeft
	keyDelete
)

// sequenceTime is the longest time between an escape character and the rest of its sequence. A person types more
// slowly.
const sequenceTime = 50 * time.Millisecond

// readKeys sends the keys that are typed. It closes the channel at the end of the input.
func readKeys(in io.Reader) <-chan rune {
	typed, keys := make(chan rune), make(chan rune)
	go func() {
		defer close(typed)
		r := bufio.NewReader(in)
		for {
			key, _, err := r.ReadRune()
			if err != nil {
				return
			}
			typed <- key
		}
	}()
	go func() {
		defer close(keys)
		for key := range typed {
			if key != keyEscape {
				keys <- key
				continue
			}
			for _, key := range sequence(typed) {
				keys <- key
			}
		}
	}()
	return keys
}

// sequence reads the rest of an escape sequence and returns its key. If no rest follows, this is the escape key.
func sequence(typed <-chan rune) []rune {
	next := func() (rune, bool) {
		select {
		case key, ok := <-typed:
			return key, ok
		case <-time.After(sequenceTime):
			return 0, false
		}
	}
	kind, ok := next()
	if !ok {
		return []rune{keyEscape}
	}
	if kind != '[' && kind != 'O' {
		return []rune{keyEscape, kind}
	}
	parameters := ""
	for {
		key, ok := next()
		if !ok {
			return []rune{keyOther}
		}
		if key < '@' || key > '~' {
			parameters += string(key)
			continue
		}
		if known, ok := sequences[parameters+string(key)]; ok {
			return []rune{known}
		}
		return []rune{keyOther}
	}
}

// sequences maps what terminals send after ESC [ and ESC O to keys.
var sequences = map[string]rune{
	"A": keyUp, "B": keyDown, "C": keyRight, "D": keyLeft, "3~": keyDelete,
	"H": keyStart, "1~": keyStart, "7~": keyStart, "F": keyEnd, "4~": keyEnd, "8~": keyEnd,
}

package textcall

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const (
	systemHead = "## Calls by text\n"
	noteHead   = "(Calls by text: "
	noteTail   = ", one call in a reply.)"
	maxNamed   = 24 // in the note
)

// system returns what a model is told at length, "" without a callable.
func system(list []Callable) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(systemHead + `You can call what is listed here by writing one tag in your reply:

[CALL: skill_name({"key": "value"})]

- Call only when it is needed.
- Give the arguments as JSON when possible.
- Stop behind the tag. The result comes as a system message; continue after the result.

You can call:
`)
	for _, c := range list {
		fmt.Fprintf(&b, "- %s: %s\n", c.Name, c.Description)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// note returns the same in short, for where system messages do not arrive. What was registered for this session
// comes before the tools that every session has: not all names fit in.
func note(list []Callable) string {
	if len(list) == 0 {
		return ""
	}
	var names, tools []string
	for _, c := range list {
		if c.Type == typeTool && c.Tool == c.Name {
			tools = append(tools, c.Name)
		} else {
			names = append(names, c.Name)
		}
	}
	names = append(names, tools...)
	names = names[:min(len(names), maxNamed)]
	return noteHead + `write [CALL: skill_name({"key": "value"})] to call one of ` + strings.Join(names, ", ") +
		noteTail
}

// enabled returns the callables that are on.
func enabled(list []Callable) []Callable {
	return slices.DeleteFunc(slices.Clone(list), func(c Callable) bool { return !c.Enabled })
}

// injectText puts list and note behind a prompt, in place of those that stand in it.
func injectText(prompt string, list []Callable) string {
	if tail := strings.LastIndex(prompt, noteTail); tail >= 0 { // the talk may have grown behind it
		if head := strings.LastIndex(prompt[:tail], "\n\n"+systemHead); head >= 0 {
			prompt = prompt[:head] + prompt[tail+len(noteTail):]
		}
	}
	if len(list) == 0 {
		return prompt
	}
	return prompt + "\n\n" + system(list) + "\n\n" + note(list)
}

// inject puts list and note into messages, in place of those that are there. What is no list of
// messages is returned as it is.
func inject(messages json.RawMessage, list []Callable) json.RawMessage {
	var given []json.RawMessage
	if json.Unmarshal(messages, &given) != nil || given == nil {
		return messages
	}
	all := make([]message, 0, len(given)+1)
	for _, raw := range given {
		m := message{raw: raw}
		if json.Unmarshal(raw, &m.fields) != nil || json.Unmarshal(m.fields["role"], &m.role) != nil {
			return messages
		}
		if text, is := m.text(); is && m.role == "system" && strings.HasPrefix(text, systemHead) {
			continue
		}
		m.strip()
		all = append(all, m)
	}
	if len(list) > 0 {
		for i, m := range slices.Backward(all) {
			if m.role == "user" {
				all[i].add(note(list))
				break
			}
		}
		at := 0
		for at < len(all) && all[at].role == "system" {
			at++
		}
		raw := encode(struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}{"system", system(list)})
		all = slices.Insert(all, at, message{raw: raw})
	}
	out := make([]json.RawMessage, len(all))
	for i, m := range all {
		out[i] = m.raw
	}
	return encode(out)
}

// message is one message of a client, of which nothing is lost.
type message struct {
	raw    json.RawMessage
	fields map[string]json.RawMessage
	role   string
}

func (m *message) text() (text string, is bool) {
	return text, json.Unmarshal(m.fields["content"], &text) == nil && len(m.fields["content"]) > 0
}

// parts returns the parts of content that is a list, and the texts of those that are text.
func (m *message) parts() (parts []json.RawMessage, texts []string, are bool) {
	if json.Unmarshal(m.fields["content"], &parts) != nil || parts == nil {
		return nil, nil, false
	}
	for _, raw := range parts {
		var p struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		_ = json.Unmarshal(raw, &p) // another kind of part has no text
		texts = append(texts, p.Text)
	}
	return parts, texts, true
}

func (m *message) set(content any) {
	m.fields["content"] = encode(content)
	m.raw = encode(m.fields)
}

// strip takes a note out that was added before.
func (m *message) strip() {
	if text, is := m.text(); is {
		i := strings.LastIndex(text, "\n\n"+noteHead)
		if i >= 0 && strings.HasSuffix(text, noteTail) && m.role == "user" {
			m.set(text[:i])
		}
		return
	}
	parts, texts, are := m.parts()
	if n := len(parts); are && n > 0 && m.role == "user" && strings.HasPrefix(texts[n-1], noteHead) &&
		strings.HasSuffix(texts[n-1], noteTail) {
		m.set(parts[:n-1])
	}
}

// add puts a note at the end.
func (m *message) add(note string) {
	if text, is := m.text(); is {
		m.set(text + "\n\n" + note)
	} else if parts, _, are := m.parts(); are {
		m.set(append(parts, encode(map[string]string{"type": "text", "text": note})))
	}
}

package lsp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/internal/strictjson"
)

// maxValues bounds the values of an answer, because each takes many times its text once decoded.
const maxValues = 200_000

// place is a position in a file, as a server reports it.
type place struct {
	path string // absolute and clean; it is not judged yet
	line int64  // from 1
}

// uriOf returns the URI of a file.
func uriOf(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// pathOf returns the path of a file URI. It returns false if the URI names no file of this machine.
func pathOf(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Opaque != "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" || !path.IsAbs(u.Path) || strings.Contains(u.Path, "\x00") {
		return "", false
	}
	return path.Clean(u.Path), true
}

type span struct {
	Start *struct {
		Line *int64 `json:"line"`
	} `json:"start"`
}

// found holds the fields of all LSP types that report a place: Location, LocationLink, SymbolInformation,
// WorkspaceSymbol and DocumentSymbol.
type found struct {
	URI       string `json:"uri"`
	Range     *span  `json:"range"`
	TargetURI string `json:"targetUri"`
	Target    *span  `json:"targetSelectionRange"`
	Location  *found `json:"location"`
	Selection *span  `json:"selectionRange"`
	Children  []found
}

var errPlaces = errors.New("its answer is no list of places")

// places decodes the places of an answer. file is the URI of places that name no file. elsewhere counts those that
// are in no file of this machine.
func places(raw json.RawMessage, file string) (all []place, elsewhere int, err error) {
	if n := strictjson.Values(raw); n > maxValues {
		return nil, 0, fmt.Errorf("its answer has %d values, %d at most", n, maxValues)
	}
	raw = bytes.TrimSpace(raw)
	var list []found
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, 0, nil
	case raw[0] == '[':
		err = json.Unmarshal(raw, &list)
	default:
		list = make([]found, 1)
		err = json.Unmarshal(raw, &list[0])
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errPlaces, err)
	}
	var add func([]found) error
	add = func(list []found) error {
		for _, f := range list {
			uri, at := file, f.Selection
			switch {
			case f.Location != nil:
				uri, at = f.Location.URI, f.Location.Range
			case f.TargetURI != "":
				uri, at = f.TargetURI, f.Target
			case f.URI != "":
				uri, at = f.URI, f.Range
			}
			if at == nil || at.Start == nil || at.Start.Line == nil || *at.Start.Line < 0 || *at.Start.Line > 1<<31 {
				return fmt.Errorf("%w: one has no line", errPlaces)
			}
			if name, ok := pathOf(uri); ok {
				all = append(all, place{name, *at.Start.Line + 1})
			} else {
				elsewhere++
			}
			if err := add(f.Children); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(list); err != nil {
		return nil, 0, err
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.line, b.line))
	})
	return slices.Compact(all), elsewhere, nil
}

// maxHover bounds the characters that are shown of a text about a symbol.
const maxHover = 20_000

// hoverText returns the text about a symbol: MarkupContent, or one of the older forms.
func hoverText(raw json.RawMessage) (string, error) {
	if n := strictjson.Values(raw); n > maxValues {
		return "", fmt.Errorf("its answer has %d values, %d at most", n, maxValues)
	}
	var h *struct {
		Contents json.RawMessage `json:"contents"`
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return "", errors.New("its answer is no text about a symbol")
	}
	if h == nil {
		return "", nil
	}
	parts := []json.RawMessage{h.Contents}
	if bytes.HasPrefix(h.Contents, []byte("[")) {
		if err := json.Unmarshal(h.Contents, &parts); err != nil {
			return "", err
		}
	}
	var texts []string
	for _, p := range parts {
		var marked struct{ Value string }
		var plain string
		if json.Unmarshal(p, &plain) == nil {
			marked.Value = plain
		} else if err := json.Unmarshal(p, &marked); err != nil {
			return "", errors.New("its answer is no text about a symbol")
		}
		if marked.Value != "" {
			texts = append(texts, marked.Value)
		}
	}
	text := strings.Join(texts, "\n")
	if r := []rune(text); len(r) > maxHover {
		text = string(r[:maxHover]) + "… [cut]"
	}
	return text, nil
}

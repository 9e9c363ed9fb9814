package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// mergePatch applies a JSON merge patch (RFC 7386) to an object.
func mergePatch(doc, patch json.RawMessage) ([]byte, error) {
	d, err := decode(doc)
	if err != nil {
		return nil, err
	}
	p, err := decode(patch)
	if err != nil {
		return nil, err
	}
	if _, ok := p.(map[string]any); !ok {
		return nil, errors.New("the patch is not an object")
	}
	return json.Marshal(merge(d, p))
}

func merge(doc, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	d, ok := doc.(map[string]any)
	if !ok {
		d = map[string]any{}
	}
	for k, v := range p {
		if v == nil {
			delete(d, k)
		} else {
			d[k] = merge(d[k], v)
		}
	}
	return d
}

// canonical returns the JSON with sorted keys and no spaces, numbers kept as written.
func canonical(b json.RawMessage) ([]byte, error) {
	v, err := decode(b)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func decode(b json.RawMessage) (any, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("arguments are not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("arguments hold more than one JSON value")
	}
	return v, nil
}

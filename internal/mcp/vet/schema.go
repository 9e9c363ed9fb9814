package vet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	maxPlaces = 20_000 // places of a schema that a check of arguments may visit
	maxDepth  = 64     // nesting of a schema
)

// checkSchema returns the schema for the check of arguments. The library that checks recurses at each reference, and
// a full stack ends the process. So a reference that leads back to its own place becomes a schema that accepts
// everything, and a schema with more than maxPlaces places is refused.
func checkSchema(raw json.RawMessage) (json.RawMessage, error) {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, errors.New("it is no JSON")
	}
	root, ok := value.(map[string]any)
	switch {
	case value == nil:
		return nil, errors.New("it is null")
	case !ok:
		return nil, errors.New("it is no object")
	case root["type"] == nil:
		root["type"] = "object"
	case root["type"] != "object":
		return nil, fmt.Errorf("its type is %.40v, and arguments are an object", root["type"])
	}
	if root["properties"] == nil && root["additionalProperties"] == nil {
		root["additionalProperties"] = true // without it the daemon would accept no argument
	}
	u := unfolding{root: root, sizes: map[string]int{}, on: map[string]bool{}}
	size, err := u.size("", root, 0)
	if err == nil && size > maxPlaces {
		err = fmt.Errorf("it unfolds to more than %d places", maxPlaces)
	}
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	return text, compile(text)
}

// compile compiles a schema as the check of arguments will.
func compile(text json.RawMessage) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the schema library cannot read it: %v", v)
		}
	}()
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("it is no JSON Schema: %w", err)
	}
	if _, err := s.Resolve(nil); err != nil {
		return fmt.Errorf("it is no JSON Schema: %w", err)
	}
	return nil
}

// unfolding counts the places of a schema after its references are followed.
type unfolding struct {
	root  any
	sizes map[string]int  // by pointer
	on    map[string]bool // pointers whose count has begun
}

// names lists the keywords whose value is a map of schemas, lists those whose value is a list.
var (
	names = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
	lists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	ones  = []string{
		"items", "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema",
	}
	anchors = []string{"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "$id"}
)

// spelled returns an error for a key that differs from a keyword only in upper and lower case, because the library
// treats it as the keyword.
func spelled(key string) error {
	for _, words := range [][]string{names, lists, ones, anchors, {"$ref"}} {
		for _, w := range words {
			if key != w && strings.EqualFold(key, w) {
				return fmt.Errorf("it has the key %q, which is written %s", key, w)
			}
		}
	}
	return nil
}

func (u *unfolding) size(at string, node any, depth int) (int, error) {
	schema, ok := node.(map[string]any)
	if !ok {
		return 1, nil
	}
	if depth > maxDepth {
		return 0, fmt.Errorf("it nests more than %d deep", maxDepth)
	}
	if n, known := u.sizes[at]; known {
		return n, nil
	}
	u.on[at] = true
	defer delete(u.on, at)
	total := 1
	add := func(at string, node any) error {
		n, err := u.size(at, node, depth+1)
		total = min(total+n, maxPlaces+1)
		return err
	}
	for key := range schema {
		if err := spelled(key); err != nil {
			return 0, err
		}
	}
	for _, key := range anchors {
		if key == "$id" && depth == 0 {
			delete(schema, key) // it names the whole schema; nothing refers to it
			continue
		}
		if _, has := schema[key]; has {
			return 0, fmt.Errorf("it has %s, which is not followed here", key)
		}
	}
	for _, key := range names {
		group, _ := schema[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(group)) { // which reference of a ring is cut depends on the order
			if key == "$defs" || key == "definitions" {
				continue // counted at each reference
			}
			if err := add(at+"/"+key+"/"+escape(name), group[name]); err != nil {
				return 0, err
			}
		}
	}
	for _, key := range append(lists, "items") {
		group, _ := schema[key].([]any)
		for i, one := range group {
			if err := add(at+"/"+key+"/"+strconv.Itoa(i), one); err != nil {
				return 0, err
			}
		}
	}
	for _, key := range ones {
		if err := add(at+"/"+key, schema[key]); err != nil {
			return 0, err
		}
	}
	if ref, has := schema["$ref"]; has {
		to, node, err := u.follow(ref)
		if err != nil {
			return 0, err
		}
		if u.on[to] { // the reference is inside the schema that it names
			delete(schema, "$ref")
		} else if err := add(to, node); err != nil {
			return 0, err
		}
	}
	u.sizes[at] = total
	return total, nil
}

// follow returns the schema that a reference of this schema names.
func (u *unfolding) follow(ref any) (pointer string, node any, err error) {
	text, _ := ref.(string)
	fragment, ok := strings.CutPrefix(text, "#")
	if !ok || fragment != "" && fragment[0] != '/' {
		return "", nil, fmt.Errorf("it refers to %.80q, which is not in it", fmt.Sprint(ref))
	}
	if fragment, err = url.PathUnescape(fragment); err != nil {
		return "", nil, fmt.Errorf("it refers to %.80q, which is not in it", text)
	}
	node = u.root
	if fragment == "" {
		return "", node, nil
	}
	for part := range strings.SplitSeq(fragment[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch n := node.(type) {
		case map[string]any:
			node, ok = n[part]
		case []any:
			i, err := strconv.Atoi(part)
			if ok = err == nil && i >= 0 && i < len(n); ok {
				node = n[i]
			}
		default:
			ok = false
		}
		if !ok {
			return "", nil, fmt.Errorf("it refers to %.80q, which is not in it", text)
		}
	}
	return fragment, node, nil
}

func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// texts calls add with each text of a schema that a model reads, and its place.
func texts(node any, at string, add func(at, text string)) {
	switch n := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) {
			add(at, key)
			texts(n[key], at+"."+key, add)
		}
	case []any:
		for i, item := range n {
			texts(item, at+"["+strconv.Itoa(i)+"]", add)
		}
	case string:
		add(at, n)
	}
}

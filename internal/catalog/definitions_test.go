package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func TestT33_WhatAToolReturnsIsInEveryForm(t *testing.T) {
	for want, returns := range map[string]*tool.Returns{
		`"Reads."`:                            nil,
		`"Reads.\n\nReturns: string"`:         {Type: "string"},
		`"Reads.\n\nReturns: object (lines)"`: {Type: "object", Note: "lines"},
	} {
		one := []tool.Tool{stub{tool.Spec{Name: "Read", Description: "Reads.", Returns: returns}}}
		for _, format := range []string{"openai", "anthropic", "mcp"} {
			list, err := catalog.Definitions(one, format)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := json.Marshal(list); err != nil || !strings.Contains(string(b), `"description":`+want) {
				t.Errorf("%s: %s, %v; want %s", format, b, err, want)
			}
		}
	}
}

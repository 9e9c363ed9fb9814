package integration

import (
	"fmt"
	"os"
	"testing"
)

// bin is where the programs under test are.
var bin string

func TestMain(m *testing.M) {
	var err error
	bin, err = Build()
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(bin)
	os.Exit(code)
}

// formats are both wire formats.
var formats = []string{"anthropic", "openai"}

func both(t *testing.T, test func(t *testing.T, provider string)) {
	t.Helper()
	for _, provider := range formats {
		t.Run(provider, func(t *testing.T) { test(t, provider) })
	}
}

package shellparse

import (
	"errors"
	"strings"
	"testing"
)

// TestHostileTextIsBounded gives short texts that would grow without end, or cost
// far more than their length. A run that is not bounded does not come back.
func TestHostileTextIsBounded(t *testing.T) {
	read := map[string]bool{ // others are too large
		"many directories": true, "many conditions": true, "many variables and branches": true, "branches that assign": true,
	}
	for name, src := range map[string]string{
		"a value that doubles":           "x=a; " + strings.Repeat("x=$x$x; ", 60) + "echo $x",
		"a value that doubles in quotes": "x=a; " + strings.Repeat(`x="$x$x"; `, 60),
		"a value that is appended":       "x=a; " + strings.Repeat("x+=$x; ", 60),
		"one word of many values": "x=" + strings.Repeat("a", 30_000) + "; echo " +
			strings.Repeat("$x", 15_000),
		"arguments that multiply": "set -- {1..1000}; echo " + strings.Repeat(`"$@"`, 15_000),
		"a list that doubles":     "a=(b c); " + strings.Repeat(`a=("${a[@]}" "${a[@]}"); `, 60),
		"a function that doubles": "f() { x=$x$x; }; x=a; " + strings.Repeat("f;", 60),
		"text that is evaluated":  "x=a; " + strings.Repeat(`eval x='$x$x'; `, 60),
		"a here-document that multiplies": "x=" + strings.Repeat("a", 30_000) + "; cat <<E\n" +
			strings.Repeat("$x", 15_000) + "\nE\n",
		"many variables and branches": many("a", "=1;", 4_000) + strings.Repeat(":||:;", 1_900),
		"many functions and branches": many("F", "(){ :;};", 2_500) + strings.Repeat(":||:;", 1_900),
		"many directories":            strings.Repeat("cd a||cd b;", 1_900),
		"many conditions":             many("a", "=1;", 4_000) + strings.Repeat("if :;then :;fi;", 2_000),
		"many exports":                many("export a", ";", 2_000) + strings.Repeat(":||:;", 1_900),
		"branches that assign":        many("a", "=1;", 4_000) + strings.Repeat("x=1||y=2;", 1_900),
		"loops in loops": strings.Repeat("for x in {1..16};do ", 40) + ":" +
			strings.Repeat(";done", 40),
		"functions that call": "a(){ :;};b(){ a;a;a;a;};c(){ b;b;b;b;};d(){ c;c;c;c;};" +
			"e(){ d;d;d;d;};f(){ e;e;e;e;};g(){ f;f;f;f;};g;g;g;g;",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(src, Options{Dir: "/w"})
			if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Code != "too_large") || (err == nil) != read[name] {
				t.Errorf("read: %t, %v", err == nil, err)
			}
		})
	}
}

func many(head, tail string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(head)
		for ; i > 0; i /= 26 {
			b.WriteByte(byte('a' + i%26))
		}
		b.WriteString(tail)
	}
	return b.String()
}

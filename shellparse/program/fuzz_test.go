package program

import "testing"

func FuzzAwk(f *testing.F) {
	f.Add(`BEGIN { "x" | getline; print > "y"; system("z") }`)
	f.Fuzz(func(_ *testing.T, src string) { awkUses(src, len(src)%2 == 0) })
}

func FuzzSed(f *testing.F) {
	f.Add("1e x;s/a/b/w y")
	f.Fuzz(func(_ *testing.T, src string) { p := sedParser{s: src}; p.parse() })
}

// Package tier says how much of a test runs where.
//
// make test, the gate, runs every test once, but those that [Long], golden.Slow and flaky.Mark leave
// out, with one seed and few rounds, so that it says the same thing each time. make long has a new
// SEED, which it prints. Most of its parts (tests/long) set LONG=1: they run the tests that make test
// leaves out, too, with the rounds that take hours, which ROUNDS changes. LONG=1 without SEED has the
// seed of make test.
//
//	for range tier.Rounds(t, 5, 200) { … }       // 5 kills in make test, 200 in make long
//	rnd := tier.Rand(t)                          // the same numbers in each make test
//	tier.Long(t, "prints 10 GB, four minutes")   // make long only: skips the test elsewhere
//
// Tests that make their own numbers take [Seed]. Packages that find seeds of their own, such as
// rapid, get theirs from the Makefile, in make long from tests/long.
package tier

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// seed is the one that make test always uses. If another seed finds a bug, add a fixed test.
const seed = 1

// IsLong reports whether LONG=1 is set.
func IsLong() bool { return os.Getenv("LONG") == "1" }

// Long skips what takes too long for make test, and says why.
func Long(t testing.TB, why string) {
	t.Helper()
	if !IsLong() {
		t.Skip("make long runs it: " + why)
	}
}

// Rounds returns how often something is tried: gate times, in make long long times, or as
// often as ROUNDS says.
func Rounds(t testing.TB, gate, long int) int {
	t.Helper()
	if text := os.Getenv("ROUNDS"); text != "" {
		return int(number(t, "ROUNDS", text))
	}
	if IsLong() {
		return long
	}
	return gate
}

// Seed returns the seed of this run, and tells it where it is not the usual one.
func Seed(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("SEED")
	if text == "" {
		return seed
	}
	t.Logf("SEED=%s repeats it", text)
	return number(t, "SEED", text)
}

// Rand returns random numbers that are the same for the same seed and the same test. Call it once in a test: the
// numbers of a second call are those of the first.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	var key [32]byte
	for i, c := range []byte(t.Name()) {
		key[i%24] ^= c
	}
	for i, s := 24, Seed(t); i < 32; i++ {
		key[i] = byte(s >> (8 * (i - 24)))
	}
	return rand.New(rand.NewChaCha8(key))
}

func number(t testing.TB, name, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		t.Fatalf("%s is %q, and must be a positive number", name, text)
	}
	return n
}

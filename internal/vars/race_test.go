//go:build race

package vars_test

// slow: the race detector makes the database ten times slower.
const slow = true

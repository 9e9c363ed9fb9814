//go:build !race

package vars_test

const slow = false

// Package house holds the tests of the shape of this repository, such as who imports
// whom, how long files are, what package docs show, what the launcher links, and whether
// documents name what there is. It has no code but tests; go test ./tests/house runs them. A new
// package gets a row in the import graph (imports_test.go) and one in docs/architecture.md.
package house

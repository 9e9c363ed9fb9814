// Package house holds the tests of the shape of this repository: who imports
// whom, how long files are, what package docs show, what the launcher links. It has no code
// but tests. A new package gets a row in the import graph (imports_test.go).
package house

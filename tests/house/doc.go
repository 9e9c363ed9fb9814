// Package house holds the tests of the shape of this repository, such as who imports
// whom, how long files are, what package docs show, what the launcher links, and whether
// documents name what there is. It has no code but tests; go test ./tests/house runs them. A new
// package gets a row in the import graph (imports_test.go). The first folder of a new tree gets a row in
// docs/architecture.md.
//
// A new rule is a TOPIC_test.go that walks sources (Go files) or documents. Let it fail if it finds too little
// to check. Put its exceptions, each with its reason, into a map at the top of that file, and let one that is not
// needed any more fail. A figure in a document has a row in testdata/figures.txt.
package house

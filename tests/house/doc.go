// Package house holds the tests of the shape of this repository, such as who imports
// whom, how long files are, what package docs show, what the launcher links, and whether
// documents name what there is. It has no code but tests; go test ./tests/house runs them. A new
// package gets a row in the import graph (imports_test.go), and the first folder of a new tree one in
// docs/architecture.md.
//
// A new rule is a TOPIC_test.go that walks sources (Go files) or documents, and fails if it finds too little
// to check. An exception is an element, with its reason, of the map at the top of that file; one that is not
// needed any more fails. A figure in a document has a row in testdata/figures.txt.
package house

// Package house holds the tests of the shape of this repository: who imports
// whom, how long files are, what the launcher links. It has no code.
package house

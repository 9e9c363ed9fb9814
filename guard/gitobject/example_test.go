package gitobject_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/guard/gitobject"
)

func Example() {
	files := memory{"/src/.git/HEAD": []byte("ref: refs/heads/main\n")} // nothing was ever committed
	r := gitobject.Open(files, "/src/.git")
	defer r.Close()
	hash, err := r.Blob("main.go")
	fmt.Println(hash == nil, err)
	// Output: true <nil>
}

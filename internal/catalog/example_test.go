package catalog_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/internal/catalog"
	"github.com/sandboxd/sandboxd/internal/tool"
)

func Example() {
	read := stub{tool.Spec{Name: "Read", Schema: json.RawMessage(
		`{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}`,
	)}}
	r := catalog.NewRegistry(catalog.Group{Name: "files", Tools: []tool.Tool{read}})
	r.SetDefaults(catalog.Defaults{AllGroups: true})

	session := tool.Session{ID: "s1"}
	t, err := r.Lookup(session, "Read")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Spec().Name)
	fmt.Println(r.Validate(t.Spec(), json.RawMessage(`{"file_path": 1}`)))
	_, err = r.Lookup(session, "Raed")
	fmt.Println(err)
	// Output:
	// Read
	// invalid arguments for Read: field "file_path" is an integer, want string
	// Tool Raed not found
}

package shellparse_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/shellparse"
)

// The example of the package: which programs a line starts, and which files they touch.
func Example() {
	s, err := shellparse.Parse("git push | tee log", shellparse.Options{Dir: "/src"})
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	for _, c := range s.Commands {
		fmt.Println(c.Name, "by", c.Via)
		for _, f := range c.Files {
			fmt.Println("  may", f.Access, f.Path)
		}
	}
	// Output:
	// git by [pipeline]
	// tee by [pipeline]
	//   may write /src/log
}

// What cannot be known is marked, and what cannot be read reliably is refused.
func ExampleParse_unknown() {
	s, err := shellparse.Parse(`x=r; "${x}m" notes; $TOOL; python3 -c "$code"`, shellparse.Options{Dir: "/src"})
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	for _, c := range s.Commands {
		fmt.Printf("name %q, as written %s\n", c.Name, c.Path)
	}
	for _, o := range s.Opaque {
		fmt.Println("opaque:", o.Message)
	}

	_, err = shellparse.Parse("echo 'a", shellparse.Options{})
	fmt.Println("refused:", err)
	// Output:
	// name "rm", as written rm
	// name "", as written $TOOL
	// name "python3", as written python3
	// opaque: python3 executes code given in the line, which is not read here
	// refused: reached EOF without closing quote `'`
}

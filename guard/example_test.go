package guard_test

import (
	"fmt"

	"github.com/sandboxd/sandboxd/guard"
)

// The example of the package: one line is judged under settings.
func Example() {
	settings := guard.Settings{DeniedPaths: []string{"/home/dev/.ssh"}, DeniedCommands: []string{"rm"}}
	for _, line := range []string{
		"cat ~/.ssh/id_rsa",
		"find . -name '*.o' -exec rm {} +",
		"go test ./... | tail -20",
	} {
		j := guard.JudgeCommand(line, "/work", "/home/dev", settings)
		fmt.Println(j.Verdict)
		for _, r := range j.Reasons {
			fmt.Printf("  %s: %s\n", r.Code, r.Message)
		}
	}
	// Output:
	// deny
	//   path_denied: path '/home/dev/.ssh/id_rsa' in command is denied by sandbox policy
	// deny
	//   command_denied: command 'rm' is denied by sandbox policy (detected in find -exec)
	// allow
}

// Many calls are judged under rules that are prepared once.
func ExampleNewRules() {
	settings, _, err := guard.Settings{AllowedWritePaths: []string{"/work/out"}}.Normalise()
	if err != nil {
		fmt.Println(err)
		return
	}
	rules := guard.NewRules(settings)
	for _, path := range []string{"out/a", "../other/f"} {
		j := rules.JudgePath(path, guard.Write, "/work", "/home/dev")
		fmt.Println(path, "is", j.Resolved, "and the verdict is", j.Verdict)
	}
	// Output:
	// out/a is /work/out/a and the verdict is allow
	// ../other/f is /other/f and the verdict is deny
}

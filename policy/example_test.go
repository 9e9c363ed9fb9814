package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/sandboxd/sandboxd/guard"
	"github.com/sandboxd/sandboxd/internal/tool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/permission"
	"github.com/sandboxd/sandboxd/shellparse"
)

func Example() {
	ctx := context.Background()
	e, err := policy.New(ctx, policy.Options{
		Profile: policy.ProfileDeveloper,
		Rules:   permission.Rules{Deny: []string{"Bash(git push:*)"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range []string{"git status", "git push origin main"} {
		args, err := json.Marshal(map[string]string{"command": line})
		if err != nil {
			log.Fatal(err)
		}
		script, err := shellparse.Parse(line, shellparse.Options{Dir: "/src"})
		if err != nil {
			log.Fatal(err)
		}
		d, err := e.Decide(ctx, &tool.Call{
			Target: tool.Target{
				Spec:    tool.Spec{Name: "Bash", Class: tool.ClassExec},
				Session: tool.Session{ID: "s1", Dir: "/src", Mode: tool.ModeAuto},
			},
			In: tool.In{Dir: "/src", Args: args},
			Judgement: tool.Judgement{
				Facts: tool.Facts{Class: tool.ClassExec, Mode: tool.ModeAuto, Uses: guard.Uses{Script: script}},
			},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(line, "=>", d.Verdict, d.Reasons[0].Rule)
	}
	// Output:
	// git status => ask mode:auto
	// git push origin main => deny deny Bash(git push:*)
}
